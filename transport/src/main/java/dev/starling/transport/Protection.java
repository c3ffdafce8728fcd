package dev.starling.transport;

import java.util.Locale;

/**
 * How the frames between two hosts are protected, after both ends have proven that they have the secret. Within a host
 * frames are {@link #PLAIN}. All members of a cluster need the same protection: a difference refuses the connection, on
 * both sides and with both values.
 *
 * <p>Wires over {@code tcp} and {@code aeron} are protected. Those over {@code ucx}, whose adapters write into memory
 * by themselves, are not: use them in networks that only trusted hosts can reach.
 */
public enum Protection {
    /** A keyed checksum detects mangled frames; an attacker that reads and writes packets can forge frames. */
    PLAIN,
    /** HMAC-SHA-256, truncated to 16 bytes: frames can be read on their way, but neither changed nor repeated. */
    AUTHENTICATED,
    /** AES-128-GCM: frames can be neither read nor changed nor repeated; the default. */
    ENCRYPTED;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
