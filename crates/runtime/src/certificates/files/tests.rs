use super::super::testkit::pki;
use super::*;
use crate::health::Readiness;

/// A directory that is gone after the test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(test: &str) -> Self {
        let name = format!("grove-runtime-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn put(&self, certificate: &str, key: &str) {
        fs::write(self.0.join(CERTIFICATE), certificate).unwrap();
        fs::write(self.0.join(KEY), key).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn served(serving: &ServingCertificate) -> Vec<u8> {
    serving.current.load_full().map(|pair| pair.cert[0].to_vec()).unwrap_or_default()
}

#[test]
fn files_are_served_once_they_fit_and_whenever_they_change() {
    let (mounted, readiness) = (Mounted::new("change"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let mut files = CertificateFiles::new(&mounted.0, serving.clone());

    files.look();
    assert!(!serving.ready());
    let missing = readiness.missing();
    assert!(
        missing[0].1.starts_with("cannot read") && missing[0].1.contains("tls.crt"),
        "{missing:?}"
    );

    let first = pki();
    mounted.put(&first.leaf, &first.key);
    files.look();
    assert!(serving.ready() && readiness.ready());
    let before = served(&serving);
    files.look();
    assert_eq!(served(&serving), before);

    let second = pki();
    mounted.put(&second.leaf, &second.key);
    files.look();
    assert_ne!(served(&serving), before);
}

#[test]
fn a_broken_pair_leaves_the_old_one_in_place() {
    let (mounted, readiness) = (Mounted::new("broken"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let mut files = CertificateFiles::new(&mounted.0, serving.clone());
    let (good, other) = (pki(), pki());
    mounted.put(&good.leaf, &good.key);
    files.look();
    let before = served(&serving);

    let cases = [
        (good.leaf.as_str(), other.key.as_str(), "do not fit together"),
        ("", good.key.as_str(), "there is no certificate"),
        (good.leaf.as_str(), "garbage", "the private key is not readable PEM"),
    ];
    for (certificate, key, expected) in cases {
        mounted.put(certificate, key);
        files.look();
        assert!(files.problem.as_ref().unwrap().contains(expected), "{:?}", files.problem);
        assert_eq!(served(&serving), before);
        assert!(readiness.ready(), "the old certificate is still good");
    }

    mounted.put(&other.leaf, &other.key);
    files.look();
    assert_eq!(files.problem, None);
    assert_ne!(served(&serving), before);
}

#[tokio::test(start_paused = true)]
async fn the_directory_is_looked_at_every_ten_seconds_until_shutdown() {
    let (mounted, readiness) = (Mounted::new("period"), Readiness::new());
    let serving = ServingCertificate::new(&readiness);
    let clock = Clock::at(jiff::Timestamp::UNIX_EPOCH);
    let shutdown = Shutdown::new();
    let files = CertificateFiles::new(&mounted.0, serving.clone());
    let change = async {
        clock.sleep(Duration::from_secs(35)).await;
        let good = pki();
        mounted.put(&good.leaf, &good.key);
        readiness.until_ready().await;
        assert_eq!(clock.wall().as_second(), 40);
        shutdown.start();
    };

    tokio::join!(files.run(clock.clone(), shutdown.clone()), change);
}
