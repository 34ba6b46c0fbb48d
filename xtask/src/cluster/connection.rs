//! A connection for many requests, or for one request with an endless answer.
//!
//! A benchmark with one connection per request would measure handshakes. This implements just enough HTTP/1.1
//! to send requests one after another and to follow a watch line by line.

use std::io::{self, BufRead, BufReader, Lines as IoLines, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::http::{Answer, Client, Tls};

/// Timeout of an answer: longer than the API server's own for a request.
const TIMEOUT: Duration = Duration::from_secs(70);

/// Opens connections to the API server as one user.
#[derive(Debug, Clone)]
pub struct Connector {
    client: Client,
    port: u16,
}

impl Connector {
    pub(super) fn new(client: Client, port: u16) -> Self {
        Self { client, port }
    }

    /// Opens a connection.
    pub fn connect(&self) -> Result<Connection> {
        Ok(Connection(BufReader::new(self.client.stream(self.port)?)))
    }
}

/// An open connection to the API server.
#[derive(Debug)]
pub struct Connection(BufReader<Tls>);

/// The lines of an endless answer.
pub type Lines = IoLines<BufReader<Body<BufReader<Tls>>>>;

impl Connection {
    /// Sends a request and returns its complete answer, whatever the status.
    pub fn request(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<Answer> {
        self.begin(method, path, body, Some(TIMEOUT))
            .and_then(|(status, length)| {
                let mut text = String::new();
                Body { stream: &mut self.0, length }.read_to_string(&mut text)?;
                Ok(Answer { status, body: text })
            })
            .with_context(|| format!("no answer to {method} {path}"))
    }

    /// The same, but fails unless the answer is a success.
    pub fn expect(&mut self, method: &str, path: &str, body: Option<&str>) -> Result<String> {
        let answer = self.request(method, path, body)?;
        let fine = (200..300).contains(&answer.status);
        ensure!(fine, "{method} {path}: {} {}", answer.status, answer.body);
        Ok(answer.body)
    }

    /// Sends `GET path` and returns the answer line by line; the watch has started on return.
    pub fn lines(mut self, path: &str) -> Result<Lines> {
        let (status, length) = self
            .begin("GET", path, None, None)
            .with_context(|| format!("no answer to GET {path}"))?;
        let mut body = Body { stream: self.0, length };
        if status != 200 {
            let mut text = String::new();
            body.read_to_string(&mut text)?;
            bail!("GET {path}: {status} {text}");
        }
        Ok(BufReader::new(body).lines())
    }

    fn begin(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&str>,
        timeout: Option<Duration>,
    ) -> Result<(u16, Length)> {
        let stream: &mut Tls = self.0.get_mut();
        let socket: &TcpStream = stream.get_ref();
        socket.set_read_timeout(timeout)?;
        stream.write_all(head(method, path, body).as_bytes())?;
        stream.flush()?;
        read_head(&mut self.0)
    }
}

fn head(method: &str, path: &str, body: Option<&str>) -> String {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = body.unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// How the length of a body is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    /// This many bytes are left.
    Left(u64),
    /// Chunked; this many bytes are left of the current chunk.
    Chunks(u64),
}

fn read_head(stream: &mut impl BufRead) -> Result<(u16, Length)> {
    let status = read_line(stream)?;
    let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.context("the server does not answer in HTTP")?;
    let mut length = Length::Left(0);
    loop {
        let line = read_line(stream)?;
        let Some((name, value)) = line.split_once(':') else { return Ok((status, length)) };
        if name.eq_ignore_ascii_case("content-length") {
            length = Length::Left(value.trim().parse().context("a length is a number")?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = Length::Chunks(0);
        }
    }
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

/// The body of an answer.
#[derive(Debug)]
pub struct Body<S> {
    stream: S,
    length: Length,
}

impl<S: BufRead> Read for Body<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.length == Length::Chunks(0) {
            self.length = self.next_chunk()?;
        }
        let (Length::Left(left) | Length::Chunks(left)) = &mut self.length;
        let count = (&mut self.stream).take(*left).read(buffer)?;
        *left -= count as u64;
        if *left == 0 && count > 0 && matches!(self.length, Length::Chunks(_)) {
            // Reads the line end of the chunk; the last chunk has none.
            read_line(&mut self.stream)?;
        }
        Ok(count)
    }
}

impl<S: BufRead> Body<S> {
    fn next_chunk(&mut self) -> io::Result<Length> {
        let line = read_line(&mut self.stream)?;
        let size = line.split(';').next().unwrap_or_default();
        let size = u64::from_str_radix(size, 16).map_err(io::Error::other)?;
        if size == 0 {
            read_line(&mut self.stream)?;
            return Ok(Length::Left(0));
        }
        Ok(Length::Chunks(size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(text: &str) -> (u16, String, String) {
        let mut stream = text.as_bytes();
        let (status, length) = read_head(&mut stream).unwrap();
        let mut body = String::new();
        Body { stream: &mut stream, length }.read_to_string(&mut body).unwrap();
        (status, body, String::from_utf8(stream.to_vec()).unwrap())
    }

    #[test]
    fn a_body_has_the_length_of_its_header() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 404 Not Found\r\n";
        let (status, body, rest) = answer(text);
        assert_eq!((status, body.as_str()), (200, "{}"));
        assert!(rest.starts_with("HTTP/1.1 404"), "the next answer is still to be read: {rest}");
    }

    #[test]
    fn chunks_are_joined_and_the_next_answer_is_not_read() {
        let text = "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n\
                    3\r\n{\"a\r\n4;x\r\n\":1}\r\n0\r\n\r\nnext";
        assert_eq!(answer(text), (201, "{\"a\":1}".to_owned(), "next".to_owned()));
    }

    #[test]
    fn a_line_may_span_chunks() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\none\n\r\n2\r\ntw\r\n2\r\no\n\r\n";
        let mut stream = text.as_bytes();
        let (_, length) = read_head(&mut stream).unwrap();
        let mut lines = BufReader::new(Body { stream, length }).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "one");
        assert_eq!(lines.next().unwrap().unwrap(), "two");
        let cut = lines.next().unwrap().unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "a cut watch is no end");
    }

    #[test]
    fn a_patch_is_sent_as_a_merge_patch() {
        assert!(head("PATCH", "/x", Some("{}")).contains("application/merge-patch+json"));
        assert!(head("POST", "/x", Some("{}")).ends_with("Content-Length: 2\r\n\r\n{}"));
    }
}
