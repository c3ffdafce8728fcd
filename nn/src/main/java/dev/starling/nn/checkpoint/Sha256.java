package dev.starling.nn.checkpoint;

import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** Computes SHA-256 checksums as 64 lower-case hexadecimal digits. Confined to one thread. */
public final class Sha256 {
    private final MessageDigest digest;

    /** Begins a checksum. */
    public Sha256() {
        try {
            digest = MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError("every Java platform has SHA-256", e);
        }
    }

    /** Returns the checksum of arrays, one after the other. */
    public static String of(byte[]... parts) {
        Sha256 checksum = new Sha256();
        for (byte[] part : parts) {
            checksum.add(ByteBuffer.wrap(part));
        }
        return checksum.finish();
    }

    /** Adds the remaining bytes of a buffer, whose position does not change. */
    public void add(ByteBuffer bytes) {
        digest.update(bytes.duplicate());
    }

    /** Returns the checksum of all bytes that were added. */
    public String finish() {
        return HexFormat.of().formatHex(digest.digest());
    }
}
