package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * The binary layout of CIFAR-10: a sequence of records, each consisting of one label byte and 32x32 pixels as a red, a
 * green and a blue plane.
 */
public final class CifarFile {
    /** Channels of an image. */
    public static final int CHANNELS = 3;
    /** Rows and columns of an image. */
    public static final int SIDE = 32;
    /** Number of classes. */
    public static final int CLASSES = 10;
    /** Records in each of the official files. */
    public static final int OFFICIAL_RECORDS = 10_000;

    private static final String REMEDY =
            "replace the file with an intact copy of the binary (not Python or Matlab) version";
    private static final int IMAGE_SIZE = CHANNELS * SIDE * SIDE;
    private static final int RECORD_SIZE = 1 + IMAGE_SIZE;

    private CifarFile() {
    }

    /**
     * Reads several files into one set of images.
     *
     * @param files files in the binary layout, in the order of their images
     * @param recordsPerFile records that each file must contain: {@link #OFFICIAL_RECORDS} for the official files
     * @return {@code files.size() * recordsPerFile} images
     * @throws TensorException if one array cannot hold so many images
     * @throws DataException if a file is missing, has another length, or contains a label above 9
     */
    public static LabelledImages read(List<Path> files, int recordsPerFile) {
        long bytes = (long) files.size() * recordsPerFile * IMAGE_SIZE;
        if (recordsPerFile < 0 || bytes > Integer.MAX_VALUE - 8) {
            throw TensorException.argument("cifar", "one array cannot hold " + files.size() + " files of "
                    + recordsPerFile + " records, each of " + IMAGE_SIZE + " bytes",
                    "pass the number of records in each file, or fewer files");
        }
        files.forEach(file -> requireRecords(file, recordsPerFile));
        int count = files.size() * recordsPerFile;
        byte[] pixels = new byte[(int) bytes];
        byte[] labels = new byte[count];
        for (int i = 0; i < files.size(); i++) {
            read(files.get(i), recordsPerFile, pixels, labels, i * recordsPerFile);
        }
        return new LabelledImages(CHANNELS, SIDE, SIDE, CLASSES, pixels, labels);
    }

    private static String layout(int records) {
        return (long) records * RECORD_SIZE + " bytes (" + records + " records of " + RECORD_SIZE + ")";
    }

    private static DataException unreadable(Path file, IOException e) {
        return new DataException(file, "a readable file", e.toString(), "check that the file exists and is readable",
                e);
    }

    /** Checks the length of a file before memory for its records is allocated. */
    private static void requireRecords(Path file, int records) {
        try {
            long size = Files.size(file);
            if (size != (long) records * RECORD_SIZE) {
                throw new DataException(file, layout(records), size + " bytes", REMEDY);
            }
        } catch (IOException e) {
            throw unreadable(file, e);
        }
    }

    private static void read(Path file, int records, byte[] pixels, byte[] labels, int first) {
        try (InputStream in = Files.newInputStream(file)) {
            byte[] record = new byte[RECORD_SIZE];
            for (int i = 0; i < records; i++) {
                if (in.readNBytes(record, 0, RECORD_SIZE) < RECORD_SIZE) {
                    throw new DataException(file, layout(records), "a file that ends early, in record " + i,
                            REMEDY);
                }
                if (Byte.toUnsignedInt(record[0]) >= CLASSES) {
                    throw new DataException(file, "labels from 0 to " + (CLASSES - 1),
                        "label " + Byte.toUnsignedInt(record[0]) + " in record " + i, REMEDY);
                }
                labels[first + i] = record[0];
                System.arraycopy(record, 1, pixels, (first + i) * IMAGE_SIZE, IMAGE_SIZE);
            }
        } catch (IOException e) {
            throw unreadable(file, e);
        }
    }
}
