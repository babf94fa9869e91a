"""A fuzzer: random programs, each checked in several ways that must agree, without a crash and within limits."""
