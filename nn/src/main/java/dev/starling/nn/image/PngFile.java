package dev.starling.nn.image;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.zip.CRC32;
import java.util.zip.CheckedInputStream;

/** The checksums of PNG files, which the JDK's decoder does not verify. */
public final class PngFile {
    private static final int SIGNATURE_BYTES = 8;
    private static final int LAST_CHUNK = 'I' << 24 | 'E' << 16 | 'N' << 8 | 'D';

    private PngFile() {
    }

    /**
     * Reads a PNG file to its last chunk.
     *
     * @throws IOException if a chunk does not match its CRC-32, or the file ends before the last chunk does
     */
    public static void requireIntact(InputStream file) throws IOException {
        CheckedInputStream summed = new CheckedInputStream(new BufferedInputStream(file, 1 << 16), new CRC32());
        DataInputStream in = new DataInputStream(summed);
        in.skipNBytes(SIGNATURE_BYTES);
        int type;
        do {
            long length = Integer.toUnsignedLong(in.readInt());
            summed.getChecksum().reset();
            type = in.readInt();
            in.skipNBytes(length);
            int sum = (int) summed.getChecksum().getValue();
            if (in.readInt() != sum) {
                throw new IOException("a chunk of the PNG file does not match its CRC-32");
            }
        } while (type != LAST_CHUNK);
    }
}
