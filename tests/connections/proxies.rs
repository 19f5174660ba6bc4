//! Proxies that connect to one server, whatever they are asked for.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

/// A running proxy.
pub struct Proxy {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    _task: AbortOnDropHandle<()>,
}

/// What a proxy speaks.
#[derive(Clone, Copy, Debug)]
pub enum Speaks {
    Http,
    Socks5,
}

impl Proxy {
    pub async fn start(speaks: Speaks, server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let noted = Arc::clone(&noted);
                tokio::spawn(async move {
                    let wanted = match speaks {
                        Speaks::Http => connect(&mut client).await?,
                        Speaks::Socks5 => socks5(&mut client).await?,
                    };
                    noted.lock().unwrap().push(wanted);
                    let mut server = TcpStream::connect(server).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        Self { address, asked, _task: AbortOnDropHandle::new(task) }
    }

    /// What it was asked for since the last time, with credentials.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// Reads a CONNECT request; returns the server and the credentials.
async fn connect(client: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    let head = String::from_utf8(head).unwrap();
    let server = head.split(' ').nth(1).unwrap();
    let header =
        |line: &str| Some(line.to_lowercase().strip_prefix("proxy-authorization: basic ")?.to_owned());
    Ok(format!("{server} {}", head.lines().find_map(header).unwrap_or_default()))
}

/// Reads the greeting and the request; returns the server and the credentials.
async fn socks5(client: &mut TcpStream) -> std::io::Result<String> {
    let _version = client.read_u8().await?;
    let mut methods = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut methods).await?;
    let mut user = String::new();
    if methods.contains(&2) {
        client.write_all(&[5, 2]).await?;
        let _version = client.read_u8().await?;
        user = format!("{}:{}", text(client).await?, text(client).await?);
        client.write_all(&[1, 0]).await?;
    } else {
        client.write_all(&[5, 0]).await?;
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    assert_eq!(request[3], 3, "a name, which the proxy looks up");
    let name = text(client).await?;
    let port = client.read_u16().await?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    Ok(format!("{name}:{port} {user}"))
}

async fn text(client: &mut TcpStream) -> std::io::Result<String> {
    let mut text = vec![0; client.read_u8().await?.into()];
    client.read_exact(&mut text).await?;
    Ok(String::from_utf8(text).unwrap())
}
