//! What to do about refusals of etcd whose own words do not say it.

/// TLS ends a connection without a word, too, depending on who is faster.
const ENDED: &str =
    "it has ended the connection: it was stopped, or wants https://, or a client's certificate of its own authority";
/// Words in a reason, and what to do.
const ADVICE: [(&str, &str); 12] = [
    ("UnknownIssuer", "the authority of its certificate is not in --etcd-ca"),
    // Another authority with the same name.
    ("invalid peer certificate: BadSignature", "the authority of its certificate is not in --etcd-ca"),
    ("certificate not valid for name", "use a name in --etcd that its certificate has"),
    ("BadCertificate", "it wants a client's certificate of its own authority: see --etcd-certificate and --etcd-key"),
    ("CertificateRequired", "it wants a client's certificate: give --etcd-certificate and --etcd-key"),
    ("broken pipe", ENDED),
    ("connection closed", ENDED),
    ("connection reset", ENDED),
    ("user name is empty", "it wants a login: give --etcd-user and --etcd-password-file"),
    ("invalid user ID or password", "see --etcd-user, and the file that --etcd-password-file names"),
    ("authentication is not enabled", "it has no users: leave out --etcd-user, or run `etcdctl auth enable`"),
    (
        "permission denied",
        "this user has no right to these keys: docs/fleet.md, Security, has the commands that give it",
    ),
];

/// The reason, and what to do if that is known.
pub(super) fn with_advice(reason: String) -> String {
    let known = ADVICE.iter().find(|(words, _)| reason.contains(words));
    known.map_or_else(|| reason.clone(), |(_, advice)| format!("{reason}: {advice}"))
}
