//! Limits connections, and selects the one to evict for a new connection.
//!
//! A connection without a request in flight is idle. When all places are taken, a new connection evicts the
//! one that has been idle longest, so that clients that send nothing cannot exclude other clients. A
//! connection with a request in flight is never evicted.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::Notify;

/// The places of one listener; clones share them.
#[derive(Clone)]
pub(super) struct Places(Arc<Shared>);

struct Shared {
    most: usize,
    state: Mutex<State>,
    /// A connection has ended or become idle.
    changed: Notify,
}

#[derive(Default)]
struct State {
    /// Numbers connections and the order in which they became idle.
    next: u64,
    /// Connections that hold a place.
    seats: BTreeMap<u64, Seat>,
    /// The idle ones among them, in the order in which they became idle.
    idle: BTreeMap<u64, u64>,
    /// All connections, including evicted ones that have not ended yet.
    open: usize,
}

struct Seat {
    in_flight: usize,
    /// Its key in [`State::idle`].
    idle: Option<u64>,
    evicted: Arc<Notify>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn now_idle(&mut self, connection: u64) {
        let moment = self.number();
        if let Some(seat) = self.seats.get_mut(&connection) {
            seat.idle = Some(moment);
            self.idle.insert(moment, connection);
        }
    }

    fn now_busy(&mut self, connection: u64) {
        if let Some(seat) = self.seats.get_mut(&connection) {
            seat.in_flight += 1;
            if let Some(moment) = seat.idle.take() {
                self.idle.remove(&moment);
            }
        }
    }

    fn leave(&mut self, connection: u64) -> Option<Seat> {
        let seat = self.seats.remove(&connection)?;
        if let Some(moment) = seat.idle {
            self.idle.remove(&moment);
        }
        Some(seat)
    }
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, state: Mutex::default(), changed: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free place, or the place of the connection that has been idle longest. Waits while all
    /// connections have requests in flight.
    pub(super) async fn take(&self) -> Place {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if let Some(place) = self.try_take() {
                return place;
            }
            changed.await;
        }
    }

    fn try_take(&self) -> Option<Place> {
        let mut state = self.state();
        if state.seats.len() >= self.0.most {
            let longest_idle = *state.idle.first_key_value()?.1;
            state.leave(longest_idle)?.evicted.notify_one();
        }
        let (connection, evicted) = (state.number(), Arc::new(Notify::new()));
        let seat = Seat { in_flight: 0, idle: None, evicted: evicted.clone() };
        state.seats.insert(connection, seat);
        state.now_idle(connection);
        state.open += 1;
        Some(Place { places: self.clone(), connection, evicted, used: Arc::default() })
    }

    /// Waits until all connections have ended.
    pub(super) async fn all_left(&self) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if self.state().open == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// The place of one connection, until it is dropped.
pub(super) struct Place {
    places: Places,
    connection: u64,
    evicted: Arc<Notify>,
    used: Arc<AtomicBool>,
}

impl Place {
    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Whether the client has sent a request.
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Acquire)
    }

    /// Returns the counter of the connection's requests.
    pub(super) fn requests(&self) -> Requests {
        let (places, used) = (self.places.clone(), self.used.clone());
        Requests { places, connection: self.connection, used }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.places.state();
            state.leave(self.connection);
            state.open -= 1;
        }
        self.places.0.changed.notify_waiters();
    }
}

/// Counts the requests of one connection.
pub(super) struct Requests {
    places: Places,
    connection: u64,
    used: Arc<AtomicBool>,
}

impl Requests {
    /// A request that is in flight until it is dropped.
    pub(super) fn begin(&self) -> InFlight {
        self.used.store(true, Ordering::Release);
        self.places.state().now_busy(self.connection);
        InFlight { places: self.places.clone(), connection: self.connection }
    }
}

/// A request in flight.
pub(super) struct InFlight {
    places: Places,
    connection: u64,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        {
            let mut state = self.places.state();
            let Some(seat) = state.seats.get_mut(&self.connection) else { return };
            seat.in_flight -= 1;
            if seat.in_flight > 0 {
                return;
            }
            state.now_idle(self.connection);
        }
        self.places.0.changed.notify_waiters();
    }
}

/// The body of an answer. The request is in flight until the body is complete.
pub(super) struct Answer {
    body: axum::body::Body,
    _request: InFlight,
}

impl Answer {
    pub(super) fn new(body: axum::body::Body, request: InFlight) -> Self {
        Self { body, _request: request }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_evicted(place: &Place) -> bool {
        place.evicted().now_or_never().is_some()
    }

    #[test]
    fn a_new_connection_evicts_the_one_that_is_idle_longest() {
        let places = Places::new(3);
        let [first, second, third] = std::array::from_fn(|_| places.try_take().unwrap());
        // The first is idle again after a request, the second has one in flight.
        drop(first.requests().begin());
        let busy = second.requests().begin();

        let fourth = places.try_take().unwrap();
        assert!(is_evicted(&third) && !is_evicted(&first) && !is_evicted(&second));
        assert!(first.is_used() && !third.is_used());
        let _fifth = places.try_take().unwrap();
        assert!(is_evicted(&first) && !is_evicted(&fourth));
        drop(busy);
        let _sixth = places.try_take().unwrap();
        assert!(is_evicted(&fourth) && !is_evicted(&second));
    }

    #[test]
    fn busy_connections_stay_and_new_ones_wait_for_them() {
        let places = Places::new(1);
        let place = places.try_take().unwrap();
        let (requests, other) = (place.requests(), place.requests());
        let (one, two) = (requests.begin(), other.begin());
        let mut next = Box::pin(places.take());
        assert!((&mut next).now_or_never().is_none());
        drop(one);
        assert!((&mut next).now_or_never().is_none());
        drop(two);
        assert!((&mut next).now_or_never().is_some());
        assert!(is_evicted(&place));
    }

    #[test]
    fn a_late_end_of_an_evicted_connection_changes_nothing() {
        let places = Places::new(1);
        let place = places.try_take().unwrap();
        let (request, requests) = (place.requests().begin(), place.requests());
        drop(place);
        drop(request);
        drop(requests.begin());
        assert_eq!(places.state().idle.len(), 0);
        assert!(places.all_left().now_or_never().is_some());
        let evicted = places.try_take().unwrap();
        let _placed = places.try_take().unwrap();
        assert!(places.all_left().now_or_never().is_none());
        drop(evicted.requests().begin());
        assert_eq!(places.state().idle.len(), 1, "the second one");
    }
}
