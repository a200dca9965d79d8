//! A packet on its way to an anchor.

use std::sync::Arc;

use super::link::{Link, Signed};
use super::{Accepted, DomainSet, Origin, Outcome, Rejection, Validator};
use crate::Moment;
use crate::{Certificate, Rights, Rule};
use byname_wire::Name;

/// A packet, and the certificates of its chain so far.
#[derive(Debug)]
pub(super) struct Request {
    pub origin: Origin,
    /// The domains in which all links so far are permitted.
    domains: DomainSet,
    /// The signature whose certificate comes next.
    top: Link,
    /// From the packet's signer upwards.
    chain: Vec<Arc<Certificate>>,
    /// Why the last Data for it was ignored.
    pub last_rejection: Option<Rejection>,
}

/// The result of following a chain as far as possible.
pub(super) enum Step {
    Done(Outcome, Request),
    /// This certificate must be fetched.
    Want(Request, Name),
}

impl Request {
    pub(super) fn new(packet: &Signed<'_>, domains: DomainSet, origin: Origin) -> Result<Self, Rejection> {
        let top = Link::copy(packet)?;
        Ok(Request { origin, domains, top, chain: Vec::new(), last_rejection: None })
    }
}

impl Validator {
    /// Looks for the next certificates among the anchors, in the cache, and among those that this router has.
    pub(super) fn step(&mut self, mut request: Request, now: Moment) -> Step {
        // Ends at the longest chain at the latest.
        loop {
            match self.find(&request, now) {
                Ok(Some(accepted)) => {
                    self.keep(&request, &accepted, now);
                    let rights = restricted(accepted.rights, &request.chain);
                    let certificate = request.chain.first().cloned().unwrap_or(accepted.certificate);
                    return Step::Done(Ok(Accepted { certificate, domains: accepted.domains, rights }), request);
                }
                Ok(None) => {
                    let locator = request.top.locator.clone();
                    let is_meant = |known: &&Arc<Certificate>| locator.as_ref().is_prefix_of(&known.name.as_ref());
                    let Some(known) = self.known.iter().find(is_meant).cloned() else {
                        return Step::Want(request, locator);
                    };
                    if let Err(rejection) = self.link(&mut request, &known, now) {
                        return Step::Done(Err(rejection), request);
                    }
                }
                Err(rejection) => return Step::Done(Err(rejection), request),
            }
        }
    }

    /// The anchor or cached certificate whose key signed the top of a chain. `None`: it must be fetched.
    fn find(&mut self, request: &Request, now: Moment) -> Result<Option<Accepted>, Rejection> {
        let Request { domains, top, chain, .. } = request;
        if let Some(accepted) = self.find_anchor(top, *domains, now)? {
            return Ok(Some(accepted));
        }
        if !top.is_named() {
            return Err(Rejection::NoLocator);
        }
        let not_permitted = || Rejection::NotPermitted { packet: top.name.clone(), locator: top.locator.clone() };
        let may_permit = |place: usize| match &self.domains[place].rule {
            // The identity of a command's signer is not a prefix of the command's name.
            Rule::Hierarchical if !top.is_below_signer => true,
            rule => rule.may_permit(top.name.as_ref(), top.locator.as_ref()),
        };
        if domains.retain(may_permit).is_empty() {
            return Err(not_permitted());
        }
        if self.revocations.covers(top.locator.as_ref()) {
            return Err(Rejection::Revoked(top.locator.clone()));
        }
        if let Some(signer) = chain.iter().find(|signer| top.locator.as_ref().is_prefix_of(&signer.name.as_ref())) {
            let own = top.name.as_ref() == signer.name.as_ref();
            let name = signer.name.clone();
            return Err(if own { Rejection::UnknownAnchor(name) } else { Rejection::Loop(name) });
        }
        let mut rejection = None;
        for (certificate, valid_in, rights) in self.cache.found(&top.locator, now.unix_ms) {
            match self.check(top, domains.intersection(valid_in), &certificate, now) {
                Ok(domains) => return Ok(Some(Accepted { certificate, domains, rights })),
                Err(why) => rejection = Some(why),
            }
        }
        if chain.len() >= self.limits.depth_max {
            return Err(Rejection::TooLong { max: self.limits.depth_max });
        }
        // A certificate in the cache that does not fit may be one of several: only a wrong signature is final.
        match rejection {
            Some(why @ Rejection::BadSignature(_)) => Err(why),
            _ => Ok(None),
        }
    }

    fn find_anchor(&self, top: &Link, domains: DomainSet, now: Moment) -> Result<Option<Accepted>, Rejection> {
        let mut rejection = None;
        for place in domains.places() {
            for anchor in self.domains[place].anchors.iter().filter(|anchor| top.names(anchor)) {
                match self.check(top, DomainSet::one(place), anchor, now) {
                    Ok(domains) => {
                        let rights = Rights::default().within(anchor.announces.as_ref());
                        return Ok(Some(Accepted { certificate: Arc::new(anchor.clone()), domains, rights }));
                    }
                    Err(why) => rejection = Some(why),
                }
            }
        }
        rejection.map_or(Ok(None), Err)
    }

    /// Checks that a certificate's key signed the top of a chain, and may do so. Returns the domains that permit it.
    fn check(
        &self,
        top: &Link,
        domains: DomainSet,
        certificate: &Certificate,
        now: Moment,
    ) -> Result<DomainSet, Rejection> {
        let name = || certificate.name.clone();
        if !certificate.is_valid_at(now.unix_ms) {
            return Err(Rejection::NotValidNow(name()));
        }
        if certificate.key.key_type().is_none_or(|typ| !self.limits.key_types.contains(&typ)) {
            return Err(Rejection::KeyType(name()));
        }
        if self.revocations.covers(certificate.name.as_ref()) {
            return Err(Rejection::Revoked(name()));
        }
        let permits = |place: usize| match &self.domains[place].rule {
            Rule::Hierarchical if !top.is_below_signer => true,
            rule => rule.permits(top.name.as_ref(), certificate.name.as_ref()),
        };
        let permitted = domains.retain(permits);
        if permitted.is_empty() {
            return Err(Rejection::NotPermitted { packet: top.name.clone(), locator: name() });
        }
        if top.is_signed_by(certificate) { Ok(permitted) } else { Err(Rejection::BadSignature(name())) }
    }

    /// Adds a fetched certificate to a chain.
    pub(super) fn link(
        &self,
        request: &mut Request,
        certificate: &Arc<Certificate>,
        now: Moment,
    ) -> Result<(), Rejection> {
        if !request.top.locator.as_ref().is_prefix_of(&certificate.name.as_ref()) {
            return Err(Rejection::WrongCertificate(request.top.locator.clone()));
        }
        let domains = self.check(&request.top, request.domains, certificate, now)?;
        let top = Link::copy(&Signed::data(&certificate.data()))?;
        request.chain.push(Arc::clone(certificate));
        (request.domains, request.top, request.last_rejection) = (domains, top, None);
        Ok(())
    }

    /// Keeps the certificates of a whole chain. Each is valid as long as all above it are.
    fn keep(&mut self, request: &Request, end: &Accepted, now: Moment) {
        let end_until_ms = self.cache.until_ms(&end.certificate.name).unwrap_or(end.certificate.not_after_ms);
        let mut until_ms = end_until_ms.min(end.certificate.not_after_ms);
        let mut rights = end.rights.clone();
        for certificate in request.chain.iter().rev() {
            until_ms = until_ms.min(certificate.not_after_ms);
            rights = rights.within(certificate.announces.as_ref());
            self.cache.insert(Arc::clone(certificate), (end.domains, rights.clone()), until_ms, now.unix_ms);
        }
    }
}

/// Rights with what all certificates of a chain restrict.
fn restricted(rights: Rights, chain: &[Arc<Certificate>]) -> Rights {
    chain.iter().fold(rights, |rights, certificate| rights.within(certificate.announces.as_ref()))
}
