package dev.starling.transport;

import org.jspecify.annotations.Nullable;

/**
 * What one end of a connection says about {@linkplain Protection protection} in its first message.
 *
 * @param configured protection of connections that leave the host
 * @param leavesHost whether this end sees the other on another host
 */
record ProtectionOffer(Protection configured, boolean leavesHost) {
    static final int LENGTH = 1;

    private static final int LEAVES_HOST = 0x10;

    byte encode() {
        return (byte) (configured.ordinal() | (leavesHost ? LEAVES_HOST : 0));
    }

    /** Returns the offer that a byte encodes, or {@code null} if it encodes none. */
    static @Nullable ProtectionOffer decode(byte encoded) {
        int ordinal = encoded & ~LEAVES_HOST;
        return ordinal < 0 || ordinal >= Protection.values().length ? null
                : new ProtectionOffer(Protection.values()[ordinal], (encoded & LEAVES_HOST) != 0);
    }

    /** Returns whether the two ends cannot agree. */
    boolean contradicts(ProtectionOffer peer) {
        return (leavesHost || peer.leavesHost) && configured != peer.configured;
    }

    /** Returns the protection of the connection; if only one end sees the other on another host, that end is right. */
    Protection agreedWith(ProtectionOffer peer) {
        return leavesHost || peer.leavesHost ? configured : Protection.PLAIN;
    }
}
