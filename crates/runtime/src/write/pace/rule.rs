//! The rule, without IO.

use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Duration;

use super::LaneKey;
use crate::clock::Instant;

/// Each has a connection of its own, and more of them do not make the API server faster.
pub(super) const MOST: f64 = 24.0;
pub(super) const FEWEST: f64 = 2.0;

/// How many writes may be in flight.
#[derive(Debug)]
pub(super) struct Bound {
    /// Fractional so that it can grow slowly.
    pub(super) places: f64,
    in_flight: usize,
    /// The bound was halved at this time: writes sent before it do not halve it again.
    slowed_at: Option<Instant>,
}

impl Bound {
    fn new() -> Self {
        Self { places: MOST, in_flight: 0, slowed_at: None }
    }

    fn has_room(&self) -> bool {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "2..=24")]
        let places = self.places as usize;
        self.in_flight < places
    }

    fn grow(&mut self) {
        self.places = (self.places + 1.0 / self.places).min(MOST);
    }

    /// A write sent at `sent` was refused at `now`.
    fn slow_down(&mut self, sent: Instant, now: Instant) {
        if self.slowed_at.is_none_or(|slowed| sent > slowed) {
            self.places = (self.places / 2.0).max(FEWEST);
            self.slowed_at = Some(now);
        }
    }
}

/// The writes of one kind in one namespace.
#[derive(Debug)]
struct Lane {
    bound: Bound,
    resume_at: Instant,
    /// Writes that wait for a place of this lane, by ticket.
    line: BTreeMap<u64, Waker>,
}

impl Lane {
    fn new() -> Self {
        Self { bound: Bound::new(), resume_at: Instant::START, line: BTreeMap::new() }
    }

    /// Wakes the first in line if there is a place. It wakes the next when it has taken one: waking all
    /// for each place would make the work grow with the square of the writes.
    fn call(&self) {
        if self.bound.has_room()
            && let Some((_, first)) = self.line.first_key_value()
        {
            first.wake_by_ref();
        }
    }

    /// Whether nothing is lost when the lane is forgotten.
    fn is_at_rest(&self, now: Instant) -> bool {
        let recovered = self.bound.places >= MOST || now.since(self.resume_at) > REMEMBERED;
        self.bound.in_flight == 0 && self.line.is_empty() && now >= self.resume_at && recovered
    }
}

/// How long a lane without writes is known to have been slowed down.
const REMEMBERED: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
pub(super) enum Admission {
    Now,
    /// Not before this time.
    At(Instant),
    /// When another write has ended.
    Later,
}

/// The bounds of a process, and who waits for them.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) all: Bound,
    lanes: BTreeMap<LaneKey, Lane>,
    /// Writes whose lane has a place and that wait for one of the process, by ticket.
    line: BTreeMap<u64, Waker>,
    next_ticket: u64,
}

impl Pace {
    pub(super) fn new() -> Self {
        Self { all: Bound::new(), lanes: BTreeMap::new(), line: BTreeMap::new(), next_ticket: 0 }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.all.in_flight
    }

    #[cfg(test)]
    pub(super) fn known_lanes(&self) -> usize {
        self.lanes.len()
    }

    /// The next place in every line.
    pub(super) fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Takes a place if there is one.
    pub(super) fn admit(&mut self, lane: &LaneKey, ticket: u64, now: Instant) -> Admission {
        self.line.remove(&ticket);
        let known = self.lanes.get_mut(lane).map(|lane| {
            lane.line.remove(&ticket);
            (lane.resume_at, lane.bound.has_room())
        });
        let (resume_at, lane_has_room) = known.unwrap_or((Instant::START, true));
        let admission = if now < resume_at {
            Admission::At(resume_at)
        } else if lane_has_room && self.all.has_room() {
            self.all.in_flight += 1;
            self.lanes.entry(lane.clone()).or_insert_with(Lane::new).bound.in_flight += 1;
            return Admission::Now;
        } else {
            Admission::Later
        };
        // It may have been woken for a place that it cannot use.
        self.call();
        admission
    }

    /// Waits where the place is missing.
    pub(super) fn wait(&mut self, lane: &LaneKey, ticket: u64, waker: &Waker) {
        match self.lanes.get_mut(lane) {
            Some(lane) if !lane.bound.has_room() => lane.line.insert(ticket, waker.clone()),
            _ => self.line.insert(ticket, waker.clone()),
        };
    }

    /// A write does not wait any more.
    pub(super) fn leave(&mut self, lane: &LaneKey, ticket: u64) {
        self.line.remove(&ticket);
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.line.remove(&ticket);
            lane.call();
        }
        self.call();
    }

    pub(super) fn ended(&mut self, lane: &LaneKey, now: Instant) {
        self.all.in_flight -= 1;
        if let Some(known) = self.lanes.get_mut(lane) {
            known.bound.in_flight -= 1;
            known.call();
            if known.is_at_rest(now) {
                self.lanes.remove(lane);
            }
        }
        self.call();
    }

    pub(super) fn succeeded(&mut self, lane: &LaneKey) {
        self.all.grow();
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.bound.grow();
        }
    }

    /// A write sent at `sent` was refused at `now`, and the server asked for a pause.
    pub(super) fn throttled(
        &mut self,
        lane: &LaneKey,
        sent: Instant,
        now: Instant,
        pause: Duration,
    ) {
        let mut others = self.lanes.iter().filter(|(other, _)| *other != lane);
        if others.any(|(_, other)| now < other.resume_at) {
            self.all.slow_down(sent, now);
        }
        self.lanes.retain(|other, known| other == lane || !known.is_at_rest(now));
        let known = self.lanes.entry(lane.clone()).or_insert_with(Lane::new);
        known.resume_at = known.resume_at.max(now + pause);
        known.bound.slow_down(sent, now);
    }

    /// Wakes the first in line for a place of the process, as [`Lane::call`] does.
    fn call(&self) {
        if self.all.has_room()
            && let Some((_, first)) = self.line.first_key_value()
        {
            first.wake_by_ref();
        }
    }
}
