use proptest::prelude::*;

use super::*;
use crate::backoff::Backoff;
use crate::metrics::Metrics;
use crate::resource::Resource;
use crate::rng::Rng;
use crate::store::StoreBuilder;
use crate::view::MetaView;
use crate::wake::by;

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn drain(schedule: &mut Schedule<u32>, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| schedule.take(now).map(|ticket| ticket.key)).collect()
}

#[test]
fn a_key_queued_many_times_runs_once_at_its_best_priority() {
    let mut schedule = Schedule::default();
    schedule.want(1, Priority::Resync, at(0));
    schedule.want(2, Priority::ChildChange, at(1));
    schedule.want(1, Priority::UserChange, at(2));
    schedule.want(1, Priority::Resync, at(3));

    assert_eq!(schedule.depth(), 2);
    assert_eq!(drain(&mut schedule, at(3)), [1, 2]);
}

#[test]
fn a_key_queued_during_its_run_runs_again_afterwards() {
    let mut schedule = Schedule::default();
    schedule.want(1, Priority::UserChange, at(0));
    assert!(schedule.take(at(0)).is_some());

    schedule.want(1, Priority::UserChange, at(1));
    assert_eq!(schedule.take(at(1)), None);
    schedule.end(&1, Ended::Done { due: None }, false, at(2));

    let again = schedule.take(at(5)).unwrap();
    assert_eq!(again.waited, Duration::from_millis(4), "waiting counts from the trigger");
}

#[test]
fn a_waiting_key_overtakes_newer_keys_of_better_classes() {
    let mut schedule = Schedule::default();
    schedule.want(9, Priority::Resync, at(0));

    schedule.want(1, Priority::UserChange, at(5000));
    assert_eq!(schedule.take(at(5999)).unwrap().key, 1, "5 s are worth two classes of three");
    schedule.want(2, Priority::UserChange, at(6000));
    assert_eq!(schedule.take(at(6000)).unwrap().key, 9, "6 s are worth three, and it is older");
}

#[test]
fn triggers_do_not_change_the_failure_count() {
    let mut schedule = Schedule::default();
    schedule.want(1, Priority::UserChange, at(0));
    for failures in 0..5 {
        let ticket = schedule.take(at(failures * 100)).unwrap();
        assert_eq!(u64::from(ticket.failures), failures);
        let retry_at = at(failures * 100 + 50);
        schedule.end(&1, Ended::Failed { retry_at }, false, at(failures * 100));
        schedule.want(1, Priority::ChildChange, at(failures * 100 + 10));
    }
    assert_eq!(schedule.take(at(1000)).unwrap().failures, 5);
    schedule.end(&1, Ended::Done { due: None }, false, at(1000));

    schedule.want(1, Priority::ChildChange, at(1001));
    assert_eq!(schedule.take(at(1001)).unwrap().failures, 0);
}

#[test]
fn a_failed_key_runs_at_its_retry_time_or_at_a_trigger() {
    let mut schedule = Schedule::default();
    for key in [1, 2] {
        schedule.want(key, Priority::UserChange, at(0));
        schedule.take(at(0)).unwrap();
        schedule.end(&key, Ended::Failed { retry_at: at(500) }, false, at(0));
    }
    schedule.want(1, Priority::ChildChange, at(100));

    assert_eq!(drain(&mut schedule, at(499)), [1]);
    assert_eq!(schedule.next_due(), Some(at(500)));
    assert_eq!(drain(&mut schedule, at(500)), [2]);
}

#[test]
fn triggers_do_not_run_a_held_key() {
    let mut schedule = Schedule::default();
    schedule.want(1, Priority::UserChange, at(0));
    schedule.take(at(0)).unwrap();
    schedule.end(&1, Ended::Done { due: Some(at(10)) }, true, at(0));

    schedule.want(1, Priority::UserChange, at(1));
    assert_eq!(drain(&mut schedule, at(1000)), [] as [u32; 0]);
    schedule.release(&1);
    assert_eq!(drain(&mut schedule, at(1000)), [1]);
    schedule.release(&7);
    assert_eq!(schedule.entries.len(), 1, "releasing an unknown key remembers nothing");
}

#[test]
fn a_returned_key_stays_queued_and_a_finished_one_is_forgotten() {
    let mut schedule = Schedule::default();
    schedule.want(1, Priority::UserChange, at(0));
    schedule.take(at(0)).unwrap();
    schedule.end(&1, Ended::Returned, false, at(0));
    assert_eq!(drain(&mut schedule, at(0)), [1]);

    schedule.end(&1, Ended::Done { due: None }, false, at(0));
    assert!(schedule.entries.is_empty());
}

#[test]
fn fifty_thousand_keys_leave_in_order_of_class_and_age() {
    let mut schedule = Schedule::default();
    for key in 0..50_000_u32 {
        let priority = Priority::ALL[key as usize % 4];
        schedule.want(key, priority, at(u64::from(key) / 100));
    }

    let order = drain(&mut schedule, at(1000));

    let mut expected: Vec<u32> = (0..50_000).collect();
    expected.sort_by_key(|key| (key % 4, *key));
    assert_eq!(order, expected);
}

#[derive(Clone, Debug)]
enum Step {
    Want { key: u32, priority: usize },
    Take,
    Done { due_in: Option<u64>, held: bool },
    Fail,
    Return,
    Release,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..20_u32, 0..4_usize).prop_map(|(key, priority)| Step::Want { key, priority }),
        6 => Just(Step::Take),
        3 => (prop::option::of(0..30_000_u64), prop::bool::weighted(0.3))
            .prop_map(|(due_in, held)| Step::Done { due_in, held }),
        2 => Just(Step::Fail),
        1 => Just(Step::Return),
        2 => Just(Step::Release),
        3 => (0..15_000_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..400)
}

/// Expected state of a key.
#[derive(Clone, Debug, Default)]
struct Model {
    wanted: bool,
    running: bool,
    held: bool,
    due: Option<Instant>,
    failures: u32,
}

proptest! {
    /// No key is lost, none runs twice at once, held keys stay, failure counts are exact, and a taken key
    /// is never less urgent than the remaining ones.
    #[test]
    fn the_schedule_matches_its_model(steps in steps()) {
        let mut schedule = Schedule::<u32>::default();
        let mut model: BTreeMap<u32, Model> = BTreeMap::new();
        let mut running: Vec<u32> = Vec::new();
        let (mut now, rng) = (0_u64, Rng::seeded(9));
        for step in steps {
            match step {
                Step::Pass(millis) => now += millis,
                Step::Want { key, priority } => {
                    schedule.want(key, Priority::ALL[priority], at(now));
                    model.entry(key).or_default().wanted = true;
                }
                Step::Take => {
                    for entry in model.values_mut() {
                        if entry.due.is_some_and(|due| due <= at(now)) {
                            entry.due = None;
                            entry.wanted = true;
                        }
                    }
                    let runnable: Vec<u32> = model.iter()
                        .filter(|(_, m)| m.wanted && !m.running && !m.held)
                        .map(|(key, _)| *key).collect();
                    schedule.wake(at(now));
                    let before: BTreeMap<u32, Pending> = schedule.entries.iter()
                        .filter_map(|(key, entry)| Some((*key, entry.pending?))).collect();
                    match schedule.take(at(now)) {
                        None => prop_assert!(runnable.is_empty(), "lost: {:?}", runnable),
                        Some(ticket) => {
                            prop_assert!(runnable.contains(&ticket.key));
                            let entry = model.get_mut(&ticket.key).unwrap();
                            prop_assert_eq!(ticket.failures, entry.failures);
                            (entry.wanted, entry.running) = (false, true);
                            running.push(ticket.key);
                            if let Some(pending) = before.get(&ticket.key) {
                                let rank = |pending: &Pending| urgency(pending.priority, pending.since, at(now));
                                for other in runnable.iter().filter_map(|key| before.get(key)) {
                                    prop_assert!(rank(pending) <= rank(other));
                                }
                            }
                        }
                    }
                }
                Step::Done { due_in, held } => if let Some(key) = running.pop() {
                    let due = due_in.map(|millis| at(now + millis));
                    schedule.end(&key, Ended::Done { due }, held, at(now));
                    let entry = model.get_mut(&key).unwrap();
                    *entry = Model { wanted: entry.wanted, due, held, ..Model::default() };
                },
                Step::Fail => if let Some(key) = running.pop() {
                    let entry = model.get_mut(&key).unwrap();
                    let retry_at = at(now) + Backoff::RECONCILE.after(entry.failures + 1, &rng);
                    schedule.end(&key, Ended::Failed { retry_at }, false, at(now));
                    entry.failures += 1;
                    (entry.running, entry.due) = (false, Some(retry_at));
                },
                Step::Return => if let Some(key) = running.pop() {
                    schedule.end(&key, Ended::Returned, false, at(now));
                    let entry = model.get_mut(&key).unwrap();
                    (entry.running, entry.wanted) = (false, true);
                },
                Step::Release => {
                    let held: Vec<u32> =
                        model.iter().filter(|(_, m)| m.held).map(|(key, _)| *key).collect();
                    if let Some(key) = held.first() {
                        schedule.release(key);
                        model.get_mut(key).unwrap().held = false;
                    }
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_key_ends_at_a_trigger_or_a_due_time() {
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let queue = Queue::new(clock.clone());
    queue.want("a", Priority::UserChange);
    assert_eq!(queue.take().await.key, "a");
    queue.end(&"a", Ended::Done { due: Some(at(7_000)) }, false);

    assert_eq!(queue.take().await.key, "a");
    assert_eq!(clock.now(), at(7_000));
}

#[test]
fn relevant_changes_wake_the_keys_of_the_old_and_the_new_object() {
    let view = |version: u64, gang: &str| -> MetaView {
        serde_json::from_value(serde_json::json!({"metadata": {
            "name": "pod", "uid": "u", "resourceVersion": version.to_string(),
            "labels": {"gang": gang},
        }}))
        .unwrap()
    };
    let gang = |view: &MetaView| view.metadata.labels.get("gang").unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _guard = runtime.enter();
    let queue = Queue::new(Clock::at(jiff::Timestamp::UNIX_EPOCH));
    let pods = Resource::namespaced("", "v1", "pods", "Pod");
    let store = StoreBuilder::<MetaView>::new(pods, Metrics::new()).build();
    queue.follow(&store, Priority::ChildChange, by(gang), move |view| vec![gang(view)]);
    let keys = || -> Vec<String> {
        let mut schedule = queue.schedule();
        let now = queue.clock.now();
        let taken: Vec<String> = std::iter::from_fn(|| schedule.take(now).map(|t| t.key)).collect();
        for key in &taken {
            schedule.end(key, Ended::Done { due: None }, false, now);
        }
        taken
    };

    store.upsert(view(1, "red"));
    assert_eq!(keys(), ["red"]);
    store.upsert(view(2, "red"));
    assert_eq!(keys(), [] as [String; 0], "an irrelevant change wakes no key");
    store.upsert(view(3, "blue"));
    assert_eq!(keys(), ["red", "blue"]);
    store.delete(&crate::resource::ObjectKey::cluster("pod"), 4);
    assert_eq!(keys(), ["blue"]);
}

#[test]
fn retry_runs_failed_keys_at_once() {
    let mut schedule = Schedule::default();
    let ends = [
        (1, Ended::Failed { retry_at: at(60) }),
        (2, Ended::Failed { retry_at: at(60) }),
        (3, Ended::Done { due: Some(at(60)) }),
    ];
    for (key, ended) in ends {
        schedule.want(key, Priority::UserChange, at(0));
        assert_eq!(drain(&mut schedule, at(0)), [key]);
        schedule.end(&key, ended, false, at(0));
    }
    assert_eq!(schedule.failed(), [1, 2]);

    for key in [1, 3, 4] {
        schedule.retry(key, at(1));
    }

    let retried = schedule.take(at(1)).unwrap();
    assert_eq!((retried.key, retried.failures), (1, 1));
    assert_eq!(drain(&mut schedule, at(59)), [] as [u32; 0]);
    assert_eq!(drain(&mut schedule, at(60)), [2, 3], "as they were");
}
