package dev.starling.transport;

import dev.starling.transport.frame.Frame;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * An algorithm that protects frames with a key, for one direction of a connection. It works on arrays, because the
 * JDK's intrinsics do: direct buffers would be copied into arrays first, piece by piece.
 */
sealed interface FrameSeal {
    /** Length in bytes of the tag at the end of each frame. */
    int TAG = 16;

    /** Uses the keys that a secret yields from now on. */
    void use(byte[] secret);

    /**
     * Writes the protected form of a body behind the header that is already in {@code frame}.
     *
     * @param nonce never used before with this key
     */
    void seal(byte[] body, int length, long nonce, byte[] frame);

    /** Writes the body of a frame at its place in {@code opened}; returns false if the frame is not authentic. */
    boolean open(byte[] frame, int length, long nonce, byte[] opened);

    /** Returns an instance for frames that are protected by more than a checksum. */
    static FrameSeal of(Protection protection) {
        return switch (protection) {
            case PLAIN -> throw new IllegalArgumentException("plain frames have no seal");
            case AUTHENTICATED -> new Authenticating();
            case ENCRYPTED -> new Encrypting();
        };
    }

    /** HMAC-SHA-256 of header and body, truncated to 128 bits. (RFC 2104, RFC 4868) */
    final class Authenticating implements FrameSeal {
        private static final String ALGORITHM = "HmacSHA256";
        private static final int KEY = 32;

        private final byte[] tag = new byte[KEY];
        private final byte[] received = new byte[TAG];
        private final byte[] expected = new byte[TAG];
        private final Mac mac;

        Authenticating() {
            try {
                mac = Mac.getInstance(ALGORITHM);
            } catch (GeneralSecurityException e) {
                throw Secret.missing(ALGORITHM, e);
            }
        }

        @Override
        public void use(byte[] secret) {
            try {
                mac.init(new SecretKeySpec(Secret.expand(secret, "key", KEY), ALGORITHM));
            } catch (GeneralSecurityException e) {
                throw Secret.missing(ALGORITHM, e);
            }
        }

        @Override
        public void seal(byte[] body, int length, long nonce, byte[] frame) {
            System.arraycopy(body, 0, frame, Frame.HEADER, length);
            sign(frame, Frame.HEADER + length);
            System.arraycopy(tag, 0, frame, Frame.HEADER + length, TAG);
        }

        @Override
        public boolean open(byte[] frame, int length, long nonce, byte[] opened) {
            int end = length - TAG;
            sign(frame, end);
            System.arraycopy(frame, end, received, 0, TAG);
            System.arraycopy(tag, 0, expected, 0, TAG);
            if (!MessageDigest.isEqual(received, expected)) {
                return false;
            }
            System.arraycopy(frame, Frame.HEADER, opened, Frame.HEADER, end - Frame.HEADER);
            return true;
        }

        private void sign(byte[] frame, int length) {
            try {
                mac.update(frame, 0, length);
                mac.doFinal(tag, 0);
            } catch (ShortBufferException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** AES-128-GCM; the header is authenticated beside the body. (NIST SP 800-38D) */
    final class Encrypting implements FrameSeal {
        private static final String ALGORITHM = "AES/GCM/NoPadding";
        private static final int KEY = 16;
        private static final int NONCE = 12;
        private static final int NONCE_SALT = NONCE - Long.BYTES;

        private final byte[] iv = new byte[NONCE];
        private final Cipher cipher;
        /** Set by {@link #use} before the first frame. */
        @SuppressWarnings("NullAway.Init")
        private SecretKeySpec key;

        Encrypting() {
            try {
                cipher = Cipher.getInstance(ALGORITHM);
            } catch (GeneralSecurityException e) {
                throw Secret.missing(ALGORITHM, e);
            }
        }

        @Override
        public void use(byte[] secret) {
            key = new SecretKeySpec(Secret.expand(secret, "key", KEY), "AES");
            System.arraycopy(Secret.expand(secret, "nonce", NONCE_SALT), 0, iv, 0, NONCE_SALT);
        }

        @Override
        public void seal(byte[] body, int length, long nonce, byte[] frame) {
            try {
                begin(Cipher.ENCRYPT_MODE, nonce, frame);
                cipher.doFinal(body, 0, length, frame, Frame.HEADER);
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("cannot encrypt a frame: " + e.getMessage(), e);
            }
        }

        @Override
        public boolean open(byte[] frame, int length, long nonce, byte[] opened) {
            try {
                begin(Cipher.DECRYPT_MODE, nonce, frame);
                cipher.doFinal(frame, Frame.HEADER, length - Frame.HEADER, opened, Frame.HEADER);
                return true;
            } catch (AEADBadTagException e) {
                return false;
            } catch (GeneralSecurityException e) {
                throw new IllegalStateException("cannot decrypt a frame: " + e.getMessage(), e);
            }
        }

        private void begin(int mode, long nonce, byte[] frame) throws GeneralSecurityException {
            for (int i = NONCE_SALT; i < NONCE; i++) {
                iv[i] = (byte) (nonce >>> Byte.SIZE * (NONCE - 1 - i));
            }
            cipher.init(mode, key, new GCMParameterSpec(TAG * Byte.SIZE, iv));
            cipher.updateAAD(frame, 0, Frame.HEADER);
        }
    }
}
