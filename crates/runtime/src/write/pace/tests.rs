use super::rule::{MAX_IN_FLIGHT, MIN_IN_FLIGHT};
use super::*;

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn lane(namespace: &str) -> LaneKey {
    let resource = Resource::namespaced("", "v1", "pods", "Pod");
    LaneKey { resource, namespace: namespace.into() }
}

/// Takes all places of a lane.
fn fill(pace: &mut Pace, lane: &LaneKey, now: Instant) -> usize {
    std::iter::from_fn(|| (pace.admit(lane, 0, now) == Admission::Now).then_some(())).count()
}

#[test]
fn all_writes_share_one_limit() {
    let (mut pace, a, b) = (Pace::new(), lane("a"), lane("b"));

    assert_eq!(fill(&mut pace, &a, at(0)), 24);
    assert_eq!(pace.admit(&b, 0, at(0)), Admission::Later);
    pace.ended(&a, at(0));
    assert_eq!(pace.admit(&b, 0, at(0)), Admission::Now);
}

#[test]
fn a_burst_of_refusals_halves_the_limit_once_and_pauses_as_requested() {
    let (mut pace, a) = (Pace::new(), lane("a"));
    fill(&mut pace, &a, at(0));

    for _ in 0..24 {
        pace.throttled(&a, at(0), at(10), Duration::from_secs(2));
        pace.ended(&a, at(10));
    }

    assert_eq!(pace.admit(&a, 0, at(500)), Admission::At(at(2010)));
    assert_eq!(fill(&mut pace, &a, at(2010)), 12);
}

#[test]
fn refusals_of_one_lane_do_not_affect_other_lanes() {
    let (mut pace, a, b) = (Pace::new(), lane("a"), lane("b"));
    let other_kind = LaneKey {
        resource: Resource::namespaced("", "v1", "services", "Service"),
        namespace: "a".into(),
    };
    for round in 0..10_u64 {
        assert_eq!(pace.admit(&a, 0, at(round * 10_000)), Admission::Now);
        let now = at(round * 10_000 + 1);
        pace.throttled(&a, at(round * 10_000), now, Duration::from_secs(9));
        pace.ended(&a, now);
        assert!(matches!(pace.admit(&a, 0, now), Admission::At(_)));
        for free in [&b, &other_kind] {
            assert_eq!(fill(&mut pace, free, now), 24, "{free:?}");
            (0..24).for_each(|_| pace.ended(free, now));
        }
    }
}

#[test]
fn refusals_of_several_lanes_at_once_halve_the_limit_of_the_process() {
    let mut pace = Pace::new();
    for round in 1..20_u64 {
        for namespace in ["a", "b"] {
            let now = at(round * 10);
            pace.throttled(&lane(namespace), at(round * 10 - 1), now, Duration::from_secs(5));
        }
    }
    let c = lane("c");
    assert_eq!(fill(&mut pace, &c, at(1000)), 2);
    (0..2).for_each(|_| pace.ended(&c, at(1000)));

    let mut successes = 0;
    while pace.all.places < MAX_IN_FLIGHT {
        pace.succeeded(&c);
        successes += 1;
    }

    assert!((250..350).contains(&successes), "{successes}");
}

fn pacer() -> (Clock, Pacer) {
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let pacer = Pacer::new(clock.clone(), Metrics::new());
    (clock, pacer)
}

async fn acquired(pacer: &Pacer, namespace: &str) -> Permit {
    pacer.acquire(lane(namespace)).await.expect("the pause is short")
}

#[tokio::test(start_paused = true)]
async fn a_pause_delays_only_the_writes_of_its_lane() {
    let (clock, pacer) = pacer();
    acquired(&pacer, "a").await.throttled(Some(Duration::from_secs(5)));

    drop(acquired(&pacer, "b").await);
    let refused = pacer.acquire(lane("a")).await;
    assert_eq!(refused.map(drop), Err(Duration::from_secs(5)), "long pauses return at once");
    assert_eq!(clock.now(), at(0));
    clock.sleep(Duration::from_secs(4)).await;
    drop(acquired(&pacer, "a").await);
    assert_eq!(clock.now(), at(5000));
}

#[tokio::test(start_paused = true)]
async fn waiting_writes_proceed_in_order_while_the_limit_grows() {
    let (clock, pacer) = pacer();
    pacer.shared().all.places = MIN_IN_FLIGHT;
    let went = Mutex::new(Vec::new());
    let write = async |number: u64| {
        let permit = acquired(&pacer, if number.is_multiple_of(2) { "a" } else { "b" }).await;
        went.lock().unwrap().push(number);
        clock.sleep_until(clock.now() + Duration::from_millis(1)).await;
        permit.succeeded();
    };

    futures::future::join_all((0..200).map(write)).await;

    assert_eq!(went.into_inner().unwrap(), (0..200).collect::<Vec<_>>());
    assert!(clock.now() < at(30), "the bound grew, and the room was used: {:?}", clock.now());
}

#[tokio::test(start_paused = true)]
async fn writes_of_a_slow_lane_do_not_block_later_writes_of_other_lanes() {
    let (clock, pacer) = pacer();
    // Down to two places, and the pause has passed.
    for _ in 0..5 {
        acquired(&pacer, "slow").await.throttled(Some(Duration::from_secs(1)));
    }
    clock.sleep(Duration::from_secs(1)).await;
    let start = clock.now();
    let ended = Mutex::new(Vec::new());
    let write = async |number: u64| {
        let slow = number < 100;
        let permit = acquired(&pacer, if slow { "slow" } else { "fast" }).await;
        clock.sleep(Duration::from_secs(if slow { 10 } else { 1 })).await;
        drop(permit);
        ended.lock().unwrap().push((slow, clock.now().since(start).as_secs()));
    };

    futures::future::join_all((0..122).map(write)).await;

    let ended = ended.into_inner().unwrap();
    assert!(ended[..22].iter().all(|end| *end == (false, 1)), "{ended:?}");
    assert_eq!(ended.last(), Some(&(true, 500)), "two at a time");
}

#[tokio::test(start_paused = true)]
async fn lanes_without_state_are_forgotten() {
    let (clock, pacer) = pacer();
    for number in 0..100 {
        drop(acquired(&pacer, &number.to_string()).await);
    }
    assert_eq!(pacer.shared().known_lanes(), 0);
    for number in 0..100 {
        acquired(&pacer, &number.to_string()).await.throttled(None);
    }
    assert_eq!(pacer.shared().known_lanes(), 100);
    clock.sleep(Duration::from_secs(100)).await;
    acquired(&pacer, "another").await.throttled(None);
    assert_eq!(pacer.shared().known_lanes(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_waiting_write_passes_its_turn_on() {
    let (_, pacer) = pacer();
    pacer.shared().all.places = MIN_IN_FLIGHT;
    let permits = [acquired(&pacer, "a").await, acquired(&pacer, "b").await];
    let mut given_up = Box::pin(pacer.acquire(lane("a")));
    let mut waiting = Box::pin(pacer.acquire(lane("a")));
    assert!(futures::poll!(&mut given_up).is_pending());
    assert!(futures::poll!(&mut waiting).is_pending());

    drop(permits);
    drop(given_up);

    assert!(futures::poll!(&mut waiting).is_ready());
}
