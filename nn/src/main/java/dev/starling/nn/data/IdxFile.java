package dev.starling.nn.data;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.zip.GZIPInputStream;
import java.util.zip.ZipException;

/**
 * A file in the IDX format, in which MNIST is distributed: a magic number {@code 00 00 08 rank}, the dimensions as
 * big-endian 32-bit integers, then the elements as unsigned bytes in row-major order. The file may be plain or
 * gzip-compressed; its content decides which, not its name.
 *
 * @param dims the dimensions, outermost first
 * @param data the elements, unsigned; their number is the product of {@code dims}
 */
public record IdxFile(int[] dims, byte[] data) {
    private static final int UNSIGNED_BYTE = 0x08;
    private static final int MAX_RANK = 8;
    /**
     * The highest ratio by which deflate expands data. A header that promises more is rejected before memory is
     * allocated.
     */
    private static final long MAX_EXPANSION = 1032;
    private static final String REMEDY = "replace the file with an intact copy";

    /**
     * Reads a whole file.
     *
     * @param file the IDX file, plain or gzip-compressed
     * @throws DataException if the file is missing, is not IDX with unsigned bytes, or its length does not match its
     *     header
     */
    public static IdxFile read(Path file) {
        DataException.requireFile(file, "a readable IDX file");
        boolean gzip = false;
        try (InputStream raw = new BufferedInputStream(Files.newInputStream(file), 1 << 16)) {
            raw.mark(2);
            gzip = raw.read() == 0x1f && raw.read() == 0x8b;
            raw.reset();
            long size = Files.size(file);
            if (gzip) {
                try (InputStream inflated = new GZIPInputStream(raw, 1 << 16)) {
                    return read(file, inflated, size * MAX_EXPANSION);
                }
            }
            return read(file, raw, size);
        } catch (EOFException e) {
            throw new DataException(file, "a complete IDX file", "a file that ends early", REMEDY, e);
        } catch (ZipException e) {
            throw new DataException(file, "intact gzip data", String.valueOf(e.getMessage()), REMEDY, e);
        } catch (IOException e) {
            throw new DataException(file, "a readable file", e.toString(), "check that the file exists and is readable",
                    e);
        }
    }

    /**
     * Reads images {@code [N, H, W]} and their labels {@code [N]}.
     *
     * @param images IDX file of rank 3
     * @param labels IDX file of rank 1, as long as {@code images}
     * @param classes number of classes; a label outside {@code [0, classes)} is an error
     * @throws DataException if a file is not as described
     */
    public static LabelledImages readImages(Path images, Path labels, int classes) {
        IdxFile pixels = read(images).requireRank(images, 3, "images");
        IdxFile classOf = read(labels).requireRank(labels, 1, "labels");
        if (classOf.dims[0] != pixels.dims[0]) {
            throw new DataException(labels, pixels.dims[0] + " labels, one for each image of " + images.getFileName(),
                classOf.dims[0] + " labels", "use two files of the same set");
        }
        if (pixels.dims[1] < 1 || pixels.dims[2] < 1) {
            throw new DataException(images, "images of at least one pixel",
                "dimensions " + Arrays.toString(pixels.dims), REMEDY);
        }
        int wrong = LabelledImages.firstLabelOutside(classOf.data, classes);
        if (wrong >= 0) {
            throw new DataException(labels, "labels from 0 to " + (classes - 1),
                "label " + Byte.toUnsignedInt(classOf.data[wrong]) + " for image " + wrong, REMEDY);
        }
        return new LabelledImages(1, pixels.dims[1], pixels.dims[2], classes, pixels.data, classOf.data);
    }

    private static IdxFile read(Path file, InputStream stream, long maximumLength) throws IOException {
        DataInputStream in = new DataInputStream(stream);
        int magic = in.readInt();
        int rank = magic & 0xff;
        if (magic >>> 8 != UNSIGNED_BYTE || rank < 1 || rank > MAX_RANK) {
            throw new DataException(file, "an IDX file of unsigned bytes, starting with 0x000008 and a rank from 1 to "
                + MAX_RANK, String.format("0x%08x", magic), "check that this is the right file");
        }
        int[] dims = new int[rank];
        long length = 1;
        for (int i = 0; i < rank; i++) {
            dims[i] = in.readInt();
            boolean fits = dims[i] >= 0 && (dims[i] == 0 || length <= maximumLength / dims[i]);
            if (!fits || length * dims[i] > Integer.MAX_VALUE - 8) {
                throw new DataException(file, "dimensions whose product fits the file",
                    "dimensions " + Arrays.toString(Arrays.copyOf(dims, i + 1)) + " in a file of " + Files.size(file)
                        + " bytes", REMEDY);
            }
            length *= dims[i];
        }
        byte[] data;
        try {
            data = new byte[(int) length];
        } catch (OutOfMemoryError e) {
            throw new DataException(file, "a file that fits into the Java heap", length + " bytes, where the heap is "
                + "limited to " + Runtime.getRuntime().maxMemory(), "raise the limit with -Xmx", e);
        }
        int read = in.readNBytes(data, 0, data.length);
        if (read < length) {
            throw new DataException(file, length + " elements for dimensions " + Arrays.toString(dims),
                "a file that ends early, after " + read, REMEDY);
        }
        if (in.read() >= 0) {
            throw new DataException(file, length + " elements for dimensions " + Arrays.toString(dims),
                "more bytes after them", REMEDY);
        }
        return new IdxFile(dims, data);
    }

    private IdxFile requireRank(Path file, int rank, String what) {
        if (dims.length != rank) {
            throw new DataException(file, what + ", which have " + rank + " dimension(s)",
                "dimensions " + Arrays.toString(dims), "check that images and labels are not swapped");
        }
        return this;
    }
}
