//! What is asked, and what is answered. Pure.

use super::Metrics;
use crate::metrics::CONTENT_TYPE;

const PLAIN: &str = "text/plain; charset=utf-8";

/// Where the head ends, if it does.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    let find = |end: &[u8]| {
        let mut windows = bytes.windows(end.len());
        windows
            .position(|window| window == end)
            .map(|at| at + end.len())
    };
    match (find(b"\r\n\r\n"), find(b"\n\n")) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The answer to a head.
pub(super) fn answer(head: &[u8], metrics: &Metrics) -> Vec<u8> {
    let Some((method, target)) = first_line(head) else {
        return response("400 Bad Request", PLAIN, "", "not an HTTP request\n", true);
    };
    let with_body = method != "HEAD";
    if !matches!(method, "GET" | "HEAD") {
        let allow = "Allow: GET, HEAD\r\n";
        return response("405 Method Not Allowed", PLAIN, allow, "only GET\n", true);
    }
    match target.split_once('?').map_or(target, |(path, _)| path) {
        "/metrics" => response("200 OK", CONTENT_TYPE, "", &metrics(), with_body),
        "/healthz" => response("200 OK", PLAIN, "", "ok\n", with_body),
        _ => response(
            "404 Not Found",
            PLAIN,
            "",
            "there are /metrics and /healthz\n",
            with_body,
        ),
    }
}

/// The answer to a head that is too long.
pub(super) fn too_large() -> Vec<u8> {
    response(
        "431 Request Header Fields Too Large",
        PLAIN,
        "",
        "too long\n",
        true,
    )
}

/// Method and target.
fn first_line(head: &[u8]) -> Option<(&str, &str)> {
    let line = head.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.trim_end_matches('\r').split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let is_request = words.next().is_none()
        && !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase())
        && target.starts_with('/')
        && matches!(version, "HTTP/1.0" | "HTTP/1.1");
    is_request.then_some((method, target))
}

fn response(status: &str, kind: &str, more: &str, body: &str, with_body: bool) -> Vec<u8> {
    let length = body.len();
    let body = if with_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{more}Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
