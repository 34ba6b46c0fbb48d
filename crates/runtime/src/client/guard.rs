//! The last check of the lease, right before bytes are sent.
//!
//! A process may be stopped at any instruction and wake up when another one leads. The writer checks the
//! lease before it hands a request over, but queues, encryption and, on a new connection, round trips
//! follow. So requests that carry a [`Guard`] have connections of their own, which check again before every
//! system call that sends. Only the step from that check to the call remains; preconditions cover it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use http::Request;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connect, Connected, Connection};
use kube::client::Body;
use tower::Service;

use crate::clock::Clock;
use crate::lease::Leadership;

/// Carried by a request that may be sent only while this process leads. A client belongs to one process and
/// so has one leadership.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) leadership: Leadership,
    pub(crate) clock: Clock,
}

/// The guard of a client, set by the first request that carries one.
pub(super) type SharedGuard = Arc<OnceLock<Guard>>;

/// The lease was lost before the request was sent.
#[derive(Debug, thiserror::Error)]
#[error("this process does not hold the lease any more")]
pub(crate) struct LeaseLost;

/// Whether a request failed because of its guard.
pub(crate) fn refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|cause| {
        // An I/O error does not name the error inside it as its source.
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|io| {
            io.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<LeaseLost>)
        })
    })
}

/// Sends guarded requests over connections of their own.
#[derive(Clone)]
pub(super) struct Pools<C> {
    pub(super) plain: legacy::Client<C, Body>,
    pub(super) guarded: legacy::Client<C, Body>,
    pub(super) guard: SharedGuard,
}

impl<C: Connect + Clone + Send + Sync + 'static> Service<Request<Body>> for Pools<C> {
    type Response = http::Response<hyper::body::Incoming>;
    type Error = legacy::Error;
    type Future = legacy::ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let Some(guard) = request.extensions_mut().remove::<Guard>() else {
            return self.plain.request(request);
        };
        self.guard.get_or_init(|| guard);
        self.guarded.request(request)
    }
}

/// A connection; with a guard, it sends nothing after the lease is lost.
pub(super) struct Guarded<T> {
    pub(super) io: T,
    pub(super) guard: Option<SharedGuard>,
}

impl<T> Guarded<T> {
    fn check(&self) -> io::Result<()> {
        let guard = self.guard.as_ref().and_then(|guard| guard.get());
        if guard.is_none_or(|guard| guard.leadership.held(guard.clock.now())) {
            return Ok(());
        }
        Err(io::Error::other(LeaseLost))
    }
}

impl<T: Write + Unpin> Write for Guarded<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.io).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

impl<T: Read + Unpin> Read for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<T: Connection> Connection for Guarded<T> {
    fn connected(&self) -> Connected {
        self.io.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use hyper_util::rt::TokioIo;

    use super::*;

    fn guard(leadership: Leadership) -> SharedGuard {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        Arc::new(OnceLock::from(Guard { leadership, clock }))
    }

    #[tokio::test]
    async fn a_guarded_connection_sends_only_while_leading() {
        let send = async |guard| {
            let (ours, _theirs) = tokio::io::duplex(64);
            let mut connection = Guarded { io: TokioIo::new(ours), guard };
            poll_fn(|context| Pin::new(&mut connection).poll_write(context, b"bytes")).await
        };
        assert_eq!(send(None).await.unwrap(), 5, "no guard");
        assert_eq!(send(Some(SharedGuard::default())).await.unwrap(), 5, "no guarded request yet");
        assert_eq!(send(Some(guard(Leadership::without_election()))).await.unwrap(), 5);
        let error = send(Some(guard(Leadership::follower_for_test()))).await.unwrap_err();
        assert!(refused(&error), "{error}");
        assert!(!refused(&io::Error::other("else")));
    }
}
