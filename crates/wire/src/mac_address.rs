//! MAC addresses, which identify stations on an Ethernet.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A MAC address, `08:00:27:01:02:03`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddress(pub [u8; 6]);

/// A text that is not a MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a MAC address is six pairs of hexadecimal digits, such as 08:00:27:01:02:03")]
pub struct MacAddressError;

impl MacAddress {
    /// Whether this is a multicast or broadcast address.
    pub fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this is 00:00:00:00:00:00, which no station has.
    pub fn is_zero(self) -> bool {
        self.0 == [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, last] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{last:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = MacAddressError;

    /// Reads digits of either case.
    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = pair.and_then(|p| u8::from_str_radix(p, 16).ok()).ok_or(MacAddressError)?;
        }
        if pairs.next().is_some() { Err(MacAddressError) } else { Ok(MacAddress(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        let address: MacAddress = "08:00:27:0A:bC:ff".parse().expect("an address");
        assert_eq!(address.to_string(), "08:00:27:0a:bc:ff");
        assert!(!address.is_group() && !address.is_zero());
        assert!("01:00:5e:00:17:aa".parse::<MacAddress>().expect("an address").is_group());
        for text in
            ["", "08:00:27:01:02", "08:00:27:01:02:03:04", "8:0:27:1:2:3", "08:00:27:01:02:+3", "08-00-27-01-02-03"]
        {
            assert_eq!(text.parse::<MacAddress>(), Err(MacAddressError), "{text}");
        }
    }
}
