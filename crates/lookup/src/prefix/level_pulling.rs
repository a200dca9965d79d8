//! Binary search that starts deeper below popular prefixes [Yuan §4].
