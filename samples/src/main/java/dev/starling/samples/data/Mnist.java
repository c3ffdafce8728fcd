package dev.starling.samples.data;

import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Download;
import dev.starling.nn.data.IdxFile;
import dev.starling.nn.data.LabelledImages;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;

/**
 * MNIST (LeCun, Cortes and Burges 1998): 60,000 training images and 10,000 test images of handwritten digits, grey,
 * 28x28.
 */
public final class Mnist {
    /** Mean of the training pixels, scaled to [0, 1]. */
    public static final float MEAN = 0.1307f;
    /** Standard deviation of the training pixels, scaled to [0, 1]. */
    public static final float STD = 0.3081f;
    /** Rows and columns of an image. */
    public static final int SIDE = 28;
    /** Number of digits. */
    public static final int CLASSES = 10;

    static final List<String> FOLDERS = List.of("mnist", ".", "MNIST/raw");
    static final List<Download> FILES = List.of(
        file("train-images-idx3-ubyte.gz", 9_912_422,
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        file("train-labels-idx1-ubyte.gz", 28_881,
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        file("t10k-images-idx3-ubyte.gz", 1_648_877,
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        file("t10k-labels-idx1-ubyte.gz", 4_542,
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"));

    private Mnist() { }

    /**
     * Reads the set, after downloading those of its four files that are missing.
     *
     * @param directory contains the files, compressed or not, directly or in a folder {@code mnist}
     * @throws DataException if a file is missing and cannot be downloaded, or is not valid
     */
    public static Split load(DataDirectory directory) {
        return load(directory, FILES);
    }

    static Split load(DataDirectory directory, List<Download> files) {
        List<Path> paths = directory.require(FOLDERS, files);
        return new Split(read(paths.get(0), paths.get(1)), read(paths.get(2), paths.get(3)));
    }

    private static LabelledImages read(Path pixels, Path labels) {
        LabelledImages images = IdxFile.readImages(pixels, labels, CLASSES);
        if (images.height() != SIDE || images.width() != SIDE) {
            throw new DataException(pixels, "images of 28x28", "images of " + images.height() + "x" + images.width(),
                "replace the file with the original of MNIST");
        }
        return images;
    }

    private static Download file(String name, long lengthBytes, String sha256) {
        return new Download(List.of(URI.create("https://ossci-datasets.s3.amazonaws.com/mnist/" + name),
            URI.create("https://storage.googleapis.com/cvdf-datasets/mnist/" + name)), lengthBytes, sha256);
    }
}
