package dev.starling.transport;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermission;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import java.util.Collections;
import java.util.HexFormat;
import java.util.Set;
import javax.crypto.KDF;
import javax.crypto.Mac;
import javax.crypto.spec.HKDFParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The secret that all members of a cluster share. Never printed. */
public final class Secret {
    /** Minimum length of a secret in bytes. */
    public static final int MIN_LENGTH = 16;

    private static final String ALGORITHM = "HmacSHA256";
    private static final Set<PosixFilePermission> OF_OTHERS = Set.of(PosixFilePermission.OTHERS_READ,
            PosixFilePermission.OTHERS_WRITE);
    private static final String HKDF = "HKDF-SHA256";

    private final SecretKeySpec key;
    /** Cloned for each signature: looking the algorithm up takes longer than signing a short message. */
    private final Mac keyed;

    private Secret(byte[] bytes) {
        if (bytes.length < MIN_LENGTH) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a secret must have at least "
                    + MIN_LENGTH + " bytes, got " + bytes.length, "make one with Secret.random()");
        }
        key = new SecretKeySpec(bytes, ALGORITHM);
        keyed = keyed();
    }

    private Mac keyed() {
        try {
            Mac mac = Mac.getInstance(ALGORITHM);
            mac.init(key);
            return mac;
        } catch (GeneralSecurityException e) {
            throw missing(ALGORITHM, e);
        }
    }

    /** Returns a new secret from the system's source of randomness. */
    public static Secret random() {
        byte[] bytes = new byte[32];
        new SecureRandom().nextBytes(bytes);
        return new Secret(bytes);
    }

    /**
     * Parses a secret in the form that {@link #toHex} returns.
     *
     * @throws TransportException if the text is not a hexadecimal number of {@link #MIN_LENGTH} bytes or more
     */
    public static Secret ofHex(String hex) {
        try {
            return new Secret(HexFormat.of().parseHex(hex.strip()));
        } catch (IllegalArgumentException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "the secret is not hexadecimal",
                    "make one: openssl rand -hex 32", e);
        }
    }

    /** Returns a secret that consists of a text's UTF-8 bytes. */
    public static Secret ofText(String text) {
        return new Secret(text.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * Reads a secret in hexadecimal from a file.
     *
     * @throws TransportException if the file cannot be read, does not hold a secret, or may be read or written by every
     *     user of this host
     */
    public static Secret read(Path file) {
        try {
            PosixFileAttributeView view = Files.getFileAttributeView(file, PosixFileAttributeView.class);
            if (view != null && !Collections.disjoint(view.readAttributes().permissions(), OF_OTHERS)) {
                throw new TransportException(TransportException.Problem.ARGUMENT, "all users of this host can read or "
                        + "change the secret in " + file, "chmod 600 " + file + ", and make a new secret");
            }
            return ofHex(Files.readString(file));
        } catch (IOException e) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot read the secret in " + file,
                    "make the file readable by this user", e);
        }
    }

    /** Returns the secret in hexadecimal, for passing it to a member. */
    public String toHex() {
        return HexFormat.of().formatHex(key.getEncoded());
    }

    /** Returns the HMAC-SHA256 of the concatenated parts. (RFC 2104) */
    byte[] sign(byte[]... parts) {
        Mac mac;
        try {
            mac = (Mac) keyed.clone();
        } catch (CloneNotSupportedException e) {
            mac = keyed(); // Another provider's implementation may not support it.
        }
        for (byte[] part : parts) {
            mac.update(part);
        }
        return mac.doFinal();
    }

    /** Returns the secret of one use, by HKDF-SHA-256. (RFC 5869) */
    byte[] derive(byte[] salt, byte[] use, int length) {
        return hkdf(HKDFParameterSpec.ofExtract().addIKM(key).addSalt(salt).thenExpand(use, length));
    }

    /** Returns what a derived secret yields for a use, by the second step of HKDF-SHA-256. (RFC 5869) */
    static byte[] expand(byte[] derived, String use, int length) {
        return hkdf(HKDFParameterSpec.expandOnly(new SecretKeySpec(derived, ALGORITHM),
                use.getBytes(StandardCharsets.US_ASCII), length));
    }

    private static byte[] hkdf(HKDFParameterSpec parameters) {
        try {
            return KDF.getInstance(HKDF).deriveData(parameters);
        } catch (GeneralSecurityException e) {
            throw missing(HKDF, e);
        }
    }

    static IllegalStateException missing(String algorithm, GeneralSecurityException cause) {
        return new IllegalStateException("this JDK lacks " + algorithm, cause);
    }

    @Override
    public String toString() {
        return "Secret(hidden)";
    }
}
