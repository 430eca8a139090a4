//! A register in a real etcd.

use std::thread::sleep;
use std::time::{Duration, Instant};

use delaymq_coordinator::{Coordinator, CoordinatorError, EtcdCoordinator, EtcdOptions, EtcdTls};
use delaymq_core::replication::{SwapAnswer, Version};

use crate::cluster::{Cluster, certificates};
use crate::samples::{one_swap_wins_each_version, register, swaps_from_the_version_that_it_read};

/// How long a member that ended may be missed: the others elect another leader meanwhile.
const ELECTED_WITHIN: Duration = Duration::from_secs(120);

#[test]
#[ignore = "needs etcd: make etcd"]
fn a_key_of_etcd_swaps_from_the_version_that_was_read() {
    let cluster = Cluster::start(None);
    swaps_from_the_version_that_it_read(&cluster.coordinator("group"));
    let each = |_| Box::new(cluster.coordinator("contended")) as Box<dyn Coordinator>;
    one_swap_wins_each_version(&(0..3).map(each).collect::<Vec<_>>(), 20);
}

#[test]
#[ignore = "needs etcd: make etcd"]
fn a_watch_ends_when_the_key_changes() {
    let cluster = Cluster::start(None);
    let coordinator = cluster.coordinator("group");
    let SwapAnswer::Won(_, first) = coordinator.swap(Version(0), &register(1)).unwrap() else { panic!("it is new") };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cluster.coordinator("group").changed(first, ELECTED_WITHIN).unwrap());
        sleep(Duration::from_millis(100));
        coordinator.swap(first, &register(2)).unwrap();
        assert!(waiting.join().unwrap());
    });
}

/// Each member is killed and started again while swaps go on. A swap that failed may have been carried out; none that was
/// answered is undone, and no version is won twice.
#[test]
#[ignore = "needs etcd: make etcd"]
fn swaps_survive_the_end_of_each_member() {
    let mut cluster = Cluster::start(None);
    let coordinator = cluster.coordinator("group");
    coordinator.swap(Version(0), &register(0)).unwrap();
    let mut won = 0;
    for place in 0..3 {
        cluster.kill_member(place);
        let until = Instant::now() + ELECTED_WITHIN;
        let target = won + 5;
        while won < target {
            assert!(Instant::now() < until, "no swap is won after the end of member {place}");
            let Ok(Some(known)) = coordinator.read() else { continue };
            assert!(known.value.epoch.0 >= won, "epoch {} after {won} was answered", known.value.epoch);
            let next = register(known.value.epoch.0 + 1);
            if let Ok(SwapAnswer::Won(_, version)) = coordinator.swap(known.version, &next) {
                assert!(version > known.version);
                won = won.max(known.value.epoch.0) + 1;
            }
        }
        cluster.start_member(place);
    }
}

#[test]
#[ignore = "needs etcd: make etcd"]
fn without_a_majority_there_is_an_error_and_no_answer() {
    let mut cluster = Cluster::start(None);
    let options = EtcdOptions { timeout: Duration::from_millis(500), ..cluster.options("group") };
    let coordinator = EtcdCoordinator::new(&options).unwrap();
    cluster.coordinator("group").swap(Version(0), &register(1)).unwrap();
    cluster.kill_member(0);
    cluster.kill_member(1);
    let known = coordinator.read();
    assert!(matches!(known, Err(CoordinatorError::Unreachable { .. } | CoordinatorError::Refused { .. })), "{known:?}");
    let swapped = coordinator.swap(Version(1), &register(2));
    assert!(
        matches!(swapped, Err(CoordinatorError::Unreachable { .. } | CoordinatorError::Refused { .. })),
        "{swapped:?}"
    );
}

#[test]
#[ignore = "needs etcd: make etcd"]
fn etcd_with_certificates_answers_those_who_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let tls = certificates(folder.path());
    let cluster = Cluster::start(Some(tls.clone()));
    swaps_from_the_version_that_it_read(&cluster.coordinator("group"));
    let without = EtcdTls { client: None, ..tls };
    let stranger = EtcdCoordinator::new(&EtcdOptions { tls: Some(without), ..cluster.options("group") }).unwrap();
    assert!(matches!(stranger.read(), Err(CoordinatorError::Unreachable { .. })));
    let other = certificates(&{
        let path = folder.path().join("other");
        std::fs::create_dir(&path).unwrap();
        path
    });
    let untrusting = EtcdCoordinator::new(&EtcdOptions { tls: Some(other), ..cluster.options("group") }).unwrap();
    assert!(matches!(untrusting.read(), Err(CoordinatorError::Unreachable { .. })));
}

#[test]
fn options_that_cannot_be_used_are_refused_by_name() {
    let good = EtcdOptions {
        endpoints: vec!["http://127.0.0.1:1".to_owned()],
        key: "group".to_owned(),
        timeout: Duration::from_millis(200),
        tls: None,
    };
    let refused = |options: EtcdOptions, words: &str| {
        let error = EtcdCoordinator::new(&options).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(EtcdOptions { endpoints: Vec::new(), ..good.clone() }, "endpoints: there is none");
    refused(EtcdOptions { endpoints: vec!["localhost:2379".to_owned()], ..good.clone() }, "http://");
    refused(EtcdOptions { endpoints: vec!["https://localhost:2379".to_owned()], ..good.clone() }, "an authority");
    refused(EtcdOptions { key: String::new(), ..good.clone() }, "key");
    let missing = EtcdTls { authorities: "nowhere.pem".into(), client: None };
    refused(EtcdOptions { tls: Some(missing), ..good.clone() }, "nowhere.pem");
    let nobody = EtcdCoordinator::new(&good).unwrap();
    assert!(matches!(nobody.read(), Err(CoordinatorError::Unreachable { .. })));
    assert!(matches!(nobody.swap(Version(0), &register(1)), Err(CoordinatorError::Unreachable { .. })));
}
