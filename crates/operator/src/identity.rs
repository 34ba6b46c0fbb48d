//! The users that the operator acts as.

use std::time::Duration;

use grove_runtime::clock::Clock;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;

use crate::options::Identity;

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
/// How long the start waits for the answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The service account of the installation, and the user of this process if it is another one: an operator outside
/// the cluster acts as the user of its kubeconfig.
pub(crate) async fn users(client: &Client, identity: &Identity, clock: &Clock) -> Vec<String> {
    let mut users = vec![identity.user_name()];
    match clock.timeout(TIMEOUT, own_user(client)).await {
        Some(Ok(user)) => users.extend(user.filter(|user| !users.contains(user))),
        Some(Err(error)) => unknown_user(&users, &error.to_string()),
        None => unknown_user(&users, "the API server did not answer in time"),
    }
    users
}

fn unknown_user(users: &[String], error: &str) {
    tracing::warn!(
        error,
        "cannot ask the API server which user the operator is; it counts as {users:?}"
    );
}

async fn own_user(client: &Client) -> Result<Option<String>, kube::Error> {
    let body = serde_json::to_vec(&SelfSubjectReview::default());
    let body = body.map_err(kube::Error::SerdeError)?;
    let request = Request::new(REVIEWS).create(&PostParams::default(), body);
    let review: SelfSubjectReview =
        client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(review.status.and_then(|status| status.user_info).and_then(|user| user.username))
}
