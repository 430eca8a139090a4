//! The other end of `relay`: a consumer that reads all that is passed on.

use std::io::Read;

use crate::case::{Case, Failure, Figures, figure, now_us};
use crate::client::{connect, tell_others, told_by_others};

pub(crate) fn run(case: &Case) -> Result<Figures, Failure> {
    let mut socket = connect(told_by_others(&case.folder.join("port"))?.parse().unwrap_or(0))?;
    tell_others(&case.folder.join("consuming"), "")?;
    let (mut left, mut input) = (case.count("frame_bytes")? * case.count("requests")?, vec![0; 1 << 18]);
    while left > 0 {
        left -= socket.read(&mut input)? as u64;
    }
    Ok(Figures::from([("value", 0.0), ("ended_us", figure(now_us()))]))
}
