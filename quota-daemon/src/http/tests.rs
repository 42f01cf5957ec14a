use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

const SOON: Duration = Duration::from_secs(30);

fn start() -> Listener {
    let metrics = Arc::new(|| "up 1\n".to_owned());
    Listener::start(([127, 0, 0, 1], 0).into(), metrics).unwrap()
}

fn connect(listener: &Listener) -> TcpStream {
    let stream = TcpStream::connect(listener.address()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn rest(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn ask(listener: &Listener, request: &[u8]) -> String {
    let mut stream = connect(listener);
    stream.write_all(request).unwrap();
    rest(stream)
}

#[test]
fn metrics_are_fetched() {
    let listener = start();
    let answer = ask(&listener, b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Length: 5\r\n"), "{head}");
    assert!(head.contains("version=0.0.4"), "{head}");
    assert!(head.ends_with("Connection: close"), "{head}");
    assert_eq!(body, "up 1\n");
    let answer = ask(&listener, b"HEAD /metrics?x HTTP/1.0\n\n");
    assert!(
        answer.contains("Content-Length: 5") && answer.ends_with("\r\n\r\n"),
        "{answer}"
    );
    let answer = ask(&listener, b"GET /healthz HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("\r\n\r\nok\n"), "{answer}");
}

#[test]
fn anything_else_gets_what_it_deserves() {
    let listener = start();
    let long = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 9000]].concat();
    let with_body = [b"POST /metrics HTTP/1.1\r\n\r\n".as_slice(), &[b'a'; 5000]].concat();
    for (request, status) in [
        (b"GET / HTTP/1.1\r\n\r\n".as_slice(), 404),
        (b"GET /metrics/x HTTP/1.1\r\n\r\n", 404),
        (&with_body, 405),
        (b"hello\r\n\r\n", 400),
        (b"\x16\x03\x01\xff\xfe\n\n", 400),
        (b"GET /metrics HTTP/2\r\n\r\n", 400),
        (b"GET /metrics HTTP/1.1 x\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (&long, 431),
    ] {
        let answer = ask(&listener, request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{status}: {answer}"
        );
    }
}

#[test]
fn a_request_may_come_in_pieces() {
    let listener = start();
    let mut stream = connect(&listener);
    for byte in b"GET /healthz HTTP/1.1\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert!(rest(stream).ends_with("ok\n"));
}

#[test]
fn the_silent_are_sent_away_and_then_others_are_served() {
    let listener = start();
    let silent: Vec<_> = (0..MOST * 2).map(|_| connect(&listener)).collect();
    // Waits in the queue until two rounds of the silent have gone.
    let answer = ask(&listener, b"GET /healthz HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("ok\n"), "{answer}");
    for stream in silent {
        assert_eq!(rest(stream), "");
    }
}

#[test]
fn one_that_takes_no_answer_holds_up_nobody() {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let metrics = Arc::new(|| {
        ASKED.fetch_add(1, Ordering::Relaxed);
        "x".repeat(32 << 20)
    });
    let listener = Listener::start(([127, 0, 0, 1], 0).into(), metrics).unwrap();
    let mut greedy = connect(&listener);
    greedy.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let answer = ask(&listener, b"GET /healthz HTTP/1.1\r\n\r\n");
    assert!(answer.ends_with("ok\n"), "{answer}");
    let answer = rest(greedy);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(body.len(), 32 << 20);
    assert_eq!(ASKED.load(Ordering::Relaxed), 1);
}

#[test]
fn it_stops_when_it_is_dropped() {
    let listener = start();
    let address = listener.address();
    let mut open = connect(&listener);
    drop(listener);
    assert_eq!(open.read(&mut [0]).unwrap_or(0), 0);
    assert!(TcpStream::connect(address).is_err());
}
