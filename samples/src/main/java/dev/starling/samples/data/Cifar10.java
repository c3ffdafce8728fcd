package dev.starling.samples.data;

import dev.starling.nn.data.CifarFile;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Download;
import dev.starling.nn.data.TarGz;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * CIFAR-10 (Krizhevsky 2009): 50,000 training images and 10,000 test images of ten kinds of objects, red-green-blue,
 * 32x32.
 */
public final class Cifar10 {
    /** Names of the classes, by label. */
    public static final List<String> CLASS_NAMES =
        List.of("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck");

    static final Download ARCHIVE = new Download(
        List.of(URI.create("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz")), 170_052_171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd");
    static final List<String> FOLDERS =
        List.of("cifar10", ".", "cifar10/cifar-10-batches-bin", "cifar-10-batches-bin");
    static final List<String> TRAIN = List.of("data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
        "data_batch_4.bin", "data_batch_5.bin");
    static final String TEST = "test_batch.bin";

    private static final float[] MEAN = {0.4914f, 0.4822f, 0.4465f};
    private static final float[] STD = {0.2470f, 0.2435f, 0.2616f};
    private static final long MAX_MEMBER_BYTES = 31_000_000;

    private Cifar10() { }

    /** Returns the mean of each channel of the training pixels, scaled to [0, 1]. */
    public static float[] mean() {
        return MEAN.clone();
    }

    /** Returns the standard deviation of each channel of the training pixels, scaled to [0, 1]. */
    public static float[] std() {
        return STD.clone();
    }

    /**
     * Reads the set from its six {@code .bin} files. If some of them are missing, they are extracted from the archive
     * {@code cifar-10-binary.tar.gz}. If that is missing, too, it is downloaded, and deleted after extraction.
     *
     * @param directory contains the files directly or in a folder {@code cifar10} or {@code cifar-10-batches-bin}
     * @throws DataException if the files are missing and cannot be downloaded, or are not valid
     */
    public static Split load(DataDirectory directory) {
        return load(directory, ARCHIVE, CifarFile.OFFICIAL_RECORDS);
    }

    static Split load(DataDirectory directory, Download archive, int recordsPerFile) {
        if (!TRAIN.stream().allMatch(name -> directory.find(FOLDERS, name).isPresent())
            || directory.find(FOLDERS, TEST).isEmpty()) {
            unpack(directory, archive);
        }
        List<Path> train = TRAIN.stream().map(name -> directory.find(FOLDERS, name).orElseThrow()).toList();
        List<Path> test = List.of(directory.find(FOLDERS, TEST).orElseThrow());
        return new Split(CifarFile.read(train, recordsPerFile), CifarFile.read(test, recordsPerFile));
    }

    private static void unpack(DataDirectory directory, Download archive) {
        Optional<Path> existing = directory.find(FOLDERS, archive.fileName());
        Path file = directory.require(FOLDERS, List.of(archive)).getFirst();
        Path folder = directory.root().resolve(FOLDERS.getFirst());
        directory.log().printf("Unpacking %s to %s%n", file, folder);
        Set<String> names = new HashSet<>(TRAIN);
        names.add(TEST);
        TarGz.extract(file, folder, names, MAX_MEMBER_BYTES);
        if (existing.isEmpty()) {
            try {
                Files.deleteIfExists(file);
            } catch (IOException e) {
                directory.log().printf("%s is no longer needed, but could not be deleted: %s%n", file, e);
            }
        }
    }
}
