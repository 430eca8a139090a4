//! Every order of the steps of a history.

/// Shows each order of all these steps in which the second of `pair` comes after the first.
pub fn orders<Step: Copy + PartialEq>(steps: &[Step], pair: [Step; 2], show: &mut dyn FnMut(&[Step])) {
    behind(steps, pair, &mut Vec::new(), show);
}

fn behind<Step: Copy + PartialEq>(
    left: &[Step],
    pair: [Step; 2],
    begun: &mut Vec<Step>,
    show: &mut dyn FnMut(&[Step]),
) {
    if left.is_empty() {
        return show(begun);
    }
    for (place, step) in left.iter().enumerate() {
        if *step == pair[1] && !begun.contains(&pair[0]) {
            continue;
        }
        let mut rest = left.to_vec();
        rest.remove(place);
        begun.push(*step);
        behind(&rest, pair, begun, show);
        begun.pop();
    }
}
