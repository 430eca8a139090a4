//! Faults of the core by name, in builds with the feature `planted`.

/// Plants the fault of this name for the whole process.
///
/// # Errors
/// There is none of this name, or none at all in this build.
#[cfg(feature = "planted")]
pub(crate) fn plant(name: Option<&str>) -> Result<(), String> {
    use delaymq_core::planted::{Planted, plant_everywhere};
    let Some(name) = name else { return Ok(()) };
    let fault = Planted::named(name).ok_or_else(|| format!("no fault is called {name}"))?;
    plant_everywhere(Some(fault));
    Ok(())
}

/// As with the feature, where nothing can be planted.
#[cfg(not(feature = "planted"))]
pub(crate) fn plant(name: Option<&str>) -> Result<(), String> {
    name.map_or(Ok(()), |name| Err(format!("{name} cannot be planted: built without the feature `planted`")))
}
