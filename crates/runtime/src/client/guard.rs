//! The last look at the lease, as late as a program can take it.
//!
//! A process may be stopped at any instruction and wake up when another one leads. The writer looks
//! at the lease before it hands a request over, but between that and the socket there are queues
//! and, on a new connection, two round trips. So a request may carry a [`Guard`], and its body looks
//! again when the connection asks for its bytes: a request whose body does not come is none to the
//! server. What is left are the microseconds from there to the system call, against which no lease
//! helps; preconditions do.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Request;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;
use tower::BoxError;

use crate::clock::Clock;
use crate::lease::Leadership;

/// Carried by a request that may be sent only while this process leads.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) leadership: Leadership,
    pub(crate) clock: Clock,
}

/// The lease was lost before the body was sent.
#[derive(Debug, thiserror::Error)]
#[error("this process does not hold the lease any more")]
pub(crate) struct LeaseLost;

/// A body that is not sent after the lease is lost.
pub(crate) struct Guarded {
    body: Body,
    guard: Option<Guard>,
}

/// Moves the guard of a request to its body.
pub(crate) fn attach(mut request: Request<Body>) -> Request<Guarded> {
    let guard = request.extensions_mut().remove::<Guard>();
    request.map(|body| Guarded { body, guard })
}

/// Whether a request failed because of its guard.
pub(crate) fn refused(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(<dyn std::error::Error>::is::<LeaseLost>)
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let lost = |guard: &Guard| !guard.leadership.held(guard.clock.now());
        if self.guard.as_ref().is_some_and(lost) {
            return Poll::Ready(Some(Err(LeaseLost.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
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
    use http_body_util::BodyExt;

    use super::*;

    fn request(leadership: Leadership) -> Request<Body> {
        let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
        let mut request = Request::new(Body::from(b"{}".to_vec()));
        request.extensions_mut().insert(Guard { leadership, clock });
        request
    }

    #[tokio::test]
    async fn a_body_is_sent_whole_or_not_at_all() {
        let leads = attach(request(Leadership::without_election())).into_body();
        assert_eq!(leads.size_hint().exact(), Some(2), "needed for Content-Length");
        assert_eq!(leads.collect().await.unwrap().to_bytes(), "{}");

        let follows = attach(request(Leadership::follower_for_test())).into_body();
        let error = follows.collect().await.unwrap_err();
        assert!(refused(&*error), "{error}");

        let unguarded = attach(Request::new(Body::from(b"{}".to_vec()))).into_body();
        assert_eq!(unguarded.collect().await.unwrap().to_bytes(), "{}");
    }
}
