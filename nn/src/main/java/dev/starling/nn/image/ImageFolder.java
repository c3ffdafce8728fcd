package dev.starling.nn.image;

import dev.starling.nn.data.DataException;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.ExampleRandom;
import dev.starling.nn.data.Field;
import dev.starling.nn.data.Subset;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitOption;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.random.RandomGenerator;
import java.util.stream.Stream;
import javax.imageio.ImageIO;

/**
 * Files of images in a folder for each class, {@code root/class/…/file.png}, as examples: f32 {@code [C, H, W]} from 0
 * to 1 and the class, i64. Files are decoded by ImageIO each time an example is read, on the loader's threads; their
 * orientation in EXIF is not applied. Immutable; {@link #transforms}, {@link #grey} and {@link #maxPixels} return
 * another set of the same files.
 *
 * <pre>{@code
 * List<ImageFolder> parts = ImageFolder.of(root, 32, 32).split(7, 0.8, 0.2);
 * Dataset train = parts.get(0).transforms(Transforms.randomResizedCrop(32, 32, 0.5, 1), Transforms.randomFlip());
 * }</pre>
 */
public final class ImageFolder implements Dataset {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x466f6c6465722121L;
    private static final long MAX_PIXELS = 1L << 26;

    private final int height;
    private final int width;
    private final int channels;
    private final long maxPixels;
    private final List<String> classes;
    private final List<Path> files;
    private final int[] labels;
    private final List<Transform> transforms;

    private ImageFolder(int height, int width, int channels, long maxPixels, List<String> classes, List<Path> files,
            int[] labels, List<Transform> transforms) {
        this.height = height;
        this.width = width;
        this.channels = channels;
        this.maxPixels = maxPixels;
        this.classes = classes;
        this.files = files;
        this.labels = labels;
        this.transforms = transforms;
    }

    /**
     * Lists the images below a folder, in colours. Classes are the names of the folders in it, sorted; hidden files
     * and folders, and files whose name does not end like that of an image, are skipped.
     *
     * @param root contains a folder for each class
     * @param height rows of an example; an image that has another size after its transforms is resized
     * @param width columns of an example
     * @throws DataException if there is no class, a class has no image, or a folder cannot be read
     */
    public static ImageFolder of(Path root, int height, int width) {
        if (height < 1 || width < 1) {
            throw TensorException.argument("image folder", "height and width must be above 0, got " + height + " and "
                    + width, "give the size of the model's input");
        }
        List<Path> folders = list(root, 1, Files::isDirectory);
        if (folders.isEmpty()) {
            throw new DataException(root, "a folder for each class", "none", "put the images of each class into "
                    + "a folder of its name");
        }
        Set<String> suffixes = Set.of(ImageIO.getReaderFileSuffixes());
        List<Path> files = new ArrayList<>();
        List<Integer> labels = new ArrayList<>();
        for (Path folder : folders) {
            List<Path> images = list(folder, Integer.MAX_VALUE, file -> suffixes.contains(suffix(file))
                    && Files.isRegularFile(file));
            if (images.isEmpty()) {
                throw new DataException(folder, "an image with a name that ends in one of " + suffixes, "none",
                        "remove the folder, or put images into it");
            }
            files.addAll(images);
            images.forEach(image -> labels.add(folders.indexOf(folder)));
        }
        return new ImageFolder(height, width, 3, MAX_PIXELS, folders.stream().map(f -> f.getFileName().toString())
                .toList(), List.copyOf(files), labels.stream().mapToInt(i -> i).toArray(), List.of());
    }

    private static String suffix(Path file) {
        String name = file.getFileName().toString();
        return name.substring(name.lastIndexOf('.') + 1).toLowerCase(Locale.ROOT);
    }

    /** Returns what is below a folder, sorted by name, without what is hidden. */
    private static List<Path> list(Path folder, int depth, java.util.function.Predicate<Path> wanted) {
        try (Stream<Path> all = Files.walk(folder, depth, FileVisitOption.FOLLOW_LINKS)) {
            return all.filter(path -> !path.equals(folder) && !isHidden(folder.relativize(path)) && wanted.test(path))
                    .sorted().toList();
        } catch (IOException | UncheckedIOException e) {
            throw new DataException(folder, "a folder that can be read", e.toString(),
                    "check the path and the permissions", e);
        }
    }

    /** Returns whether a file, or a folder that contains it, is hidden. */
    private static boolean isHidden(Path relative) {
        for (Path name : relative) {
            if (name.toString().startsWith(".")) {
                return true;
            }
        }
        return false;
    }

    /** Returns the images with other transforms, which are applied one after the other. */
    public ImageFolder transforms(Transform... inOrder) {
        return new ImageFolder(height, width, channels, maxPixels, classes, files, labels, List.of(inOrder));
    }

    /** Returns the images in shades of grey, {@code [1, H, W]}. */
    public ImageFolder grey() {
        return new ImageFolder(height, width, 1, maxPixels, classes, files, labels, transforms);
    }

    /** Returns the images with another limit for the number of pixels of a file; default is 2²⁶. */
    public ImageFolder maxPixels(long pixels) {
        return new ImageFolder(height, width, channels, pixels, classes, files, labels, transforms);
    }

    /**
     * Divides the files at random into parts in which each class has the same share.
     *
     * @param seed determines the division
     * @param shares of the files; their sum must be at most 1
     */
    public List<ImageFolder> split(long seed, double... shares) {
        return Subset.stratified(labels, seed, shares).stream().map(part -> new ImageFolder(height, width, channels,
                maxPixels, classes, Arrays.stream(part).mapToObj(files::get).toList(), Arrays.stream(part).map(i ->
                labels[i]).toArray(), transforms)).toList();
    }

    /** Returns the names of the classes; the index of a class is its place. */
    public List<String> classes() {
        return classes;
    }

    /** Returns the class of each example. */
    public int[] labels() {
        return labels.clone();
    }

    /** Returns the file of an example. */
    public Path file(int index) {
        if (index < 0 || index >= files.size()) {
            throw new TensorException(TensorException.Problem.INDEX, "image folder", List.of(), "there is no example "
                    + index + " of " + files.size(), "use 0 to size() - 1");
        }
        return files.get(index);
    }

    @Override
    public int size() {
        return files.size();
    }

    @Override
    public List<Field> fields() {
        return List.of(Field.of(DType.F32, channels, height, width), Field.of(DType.I64));
    }

    @Override
    public void write(int index, Example target) {
        RandomGenerator random = ExampleRandom.of(target.seed() ^ STREAM, target.epoch(), index);
        Image image = ImageFile.read(file(index), channels, maxPixels);
        for (Transform transform : transforms) {
            image = transform.apply(image, random);
        }
        if (image.channels() != channels) {
            throw TensorException.argument("image folder", "transforms must return " + channels + " channels, got "
                    + image.channels(), "use grey() for one channel");
        }
        target.put(0, image.resize(height, width).pixels());
        target.put(1, labels[index]);
    }
}
