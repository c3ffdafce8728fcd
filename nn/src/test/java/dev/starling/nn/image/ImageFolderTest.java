package dev.starling.nn.image;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataException;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.LoadException;
import dev.starling.tensor.TensorException;
import java.awt.image.BufferedImage;
import java.awt.image.WritableRaster;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class ImageFolderTest {
    @TempDir
    private Path root;

    private Path write(String name, BufferedImage image) throws IOException {
        Path file = root.resolve(name);
        Files.createDirectories(file.getParent());
        assertThat(ImageIO.write(image, name.substring(name.lastIndexOf('.') + 1), file.toFile())).isTrue();
        return file;
    }

    private static BufferedImage image(int type, int height, int width, int... rgb) {
        BufferedImage image = new BufferedImage(width, height, type);
        for (int i = 0; i < rgb.length; i++) {
            image.setRGB(i % width, i / width, rgb[i]);
        }
        return image;
    }

    private static BufferedImage noise(long seed, int type, int size) {
        Random random = new Random(seed);
        return image(type, size, size, random.ints((long) size * size).map(i -> i | 0xff000000).toArray());
    }

    private static BufferedImage samples(int type, int... values) {
        BufferedImage image = new BufferedImage(values.length, 1, type);
        WritableRaster raster = image.getRaster();
        for (int i = 0; i < values.length; i++) {
            raster.setSample(i, 0, 0, values[i]);
        }
        return image;
    }

    private Image read(String name, int channels) {
        return ImageFile.read(root.resolve(name), channels, 1 << 20);
    }

    @Test
    void closesItsFiles() throws IOException {
        Path descriptors = Path.of("/proc/self/fd");
        assumeTrue(Files.isDirectory(descriptors), "this system does not list the files that a process has open");
        Path file = write("open.png", noise(1, BufferedImage.TYPE_INT_RGB, 4));
        read("open.png", 3);
        try (Stream<Path> open = Files.list(descriptors)) {
            assertThat(open.map(ImageFolderTest::target)).doesNotContain(file.toRealPath().toString());
        }
    }

    private static String target(Path link) {
        try {
            return Files.readSymbolicLink(link).toString();
        } catch (IOException e) {
            return "closed in the meantime";
        }
    }

    @Test
    void readsSamplesAsTheyAreStored() throws IOException {
        int[] pixels = {0xff0000, 0x00ff00, 0x0000ff, 0x336699};
        float[] planes = {1, 0, 0, 0.2f, 0, 1, 0, 0.4f, 0, 0, 1, 0.6f};
        int[] types = {BufferedImage.TYPE_INT_RGB, BufferedImage.TYPE_3BYTE_BGR};
        for (int type : types) {
            write("rgb.png", image(type, 2, 2, pixels));
            assertThat(read("rgb.png", 3).pixels()).containsExactly(planes, within(1e-6f));
            write("rgb.bmp", image(type, 2, 2, pixels));
            assertThat(read("rgb.bmp", 3).pixels()).containsExactly(planes, within(1e-6f));
        }
        // Opacity is dropped: a transparent pixel keeps its colour.
        write("alpha.png", image(BufferedImage.TYPE_INT_ARGB, 1, 2, 0x80336699, 0x00ff0000));
        assertThat(read("alpha.png", 3).pixels()).containsExactly(new float[] {0.2f, 1, 0.4f, 0, 0.6f, 0},
                within(1e-6f));
        write("colours.gif", image(BufferedImage.TYPE_BYTE_INDEXED, 1, 2, 0xff0000ff, 0xffffffff));
        assertThat(read("colours.gif", 3).pixels()).containsExactly(0, 1, 0, 1, 1, 1);
        write("bits.png", image(BufferedImage.TYPE_BYTE_BINARY, 1, 2, 0xff000000, 0xffffffff));
        assertThat(read("bits.png", 1).pixels()).containsExactly(new float[] {0, 1}, within(1e-6f));
        int[] even = new int[64];
        Arrays.fill(even, 0x336699);
        write("photo.jpg", image(BufferedImage.TYPE_INT_RGB, 8, 8, even));
        assertThat(read("photo.jpg", 3).pixels()[100]).isCloseTo(0.4f, within(0.02f));
    }

    @Test
    void readsGreyOf8And16BitsWithoutChangingItsBrightness() throws IOException {
        write("grey.png", samples(BufferedImage.TYPE_BYTE_GRAY, 0, 51, 128, 255));
        float[] expected = {0, 0.2f, 128 / 255f, 1};
        assertThat(read("grey.png", 1).pixels()).containsExactly(expected, within(1e-6f));
        assertThat(read("grey.png", 3).pixels()).hasSize(12).startsWith(expected).endsWith(expected);
        write("grey16.png", samples(BufferedImage.TYPE_USHORT_GRAY, 0, 13107, 1, 65535));
        assertThat(read("grey16.png", 1).pixels()).containsExactly(new float[] {0, 0.2f, 1 / 65535f, 1}, within(1e-6f));
        write("rgb.png", image(BufferedImage.TYPE_INT_RGB, 1, 1, 0x336699));
        assertThat(read("rgb.png", 1).pixels()).containsExactly(new float[] {0.299f * 0.2f + 0.587f * 0.4f + 0.114f
                * 0.6f}, within(1e-6f));
    }

    @Test
    void namesTheFileThatCannotBeRead() throws IOException {
        Path whole = write("a/whole.png", noise(1, BufferedImage.TYPE_INT_RGB, 40));
        byte[] bytes = Files.readAllBytes(whole);
        Files.write(root.resolve("a/half.png"), Arrays.copyOf(bytes, bytes.length / 2));
        refuses("a/half.png", "intact image");
        byte[] jpeg = Files.readAllBytes(write("a/photo.jpg", noise(1, BufferedImage.TYPE_INT_RGB, 40)));
        Files.write(root.resolve("a/half.jpg"), Arrays.copyOf(jpeg, jpeg.length / 2));
        refuses("a/half.jpg", "image");
        Files.writeString(root.resolve("a/text.png"), "no image", StandardCharsets.UTF_8);
        refuses("a/text.png", "8 bytes of none of them");
        Files.write(root.resolve("a/empty.png"), new byte[0]);
        refuses("a/empty.png", "0 bytes");
        // A header of 2³¹ - 1 by 40 pixels.
        byte[] huge = bytes.clone();
        huge[16] = 0x7f;
        Arrays.fill(huge, 17, 20, (byte) 0xff);
        Files.write(root.resolve("a/huge.png"), huge);
        refuses("a/huge.png", "at most 1048576 pixels", "2147483647 x 40");
        ImageFolder folder = ImageFolder.of(root, 8, 8);
        try (DataLoader loader = DataLoader.of(folder).batchSize(1).workers(0).build()) {
            var batches = loader.epoch(0).iterator();
            assertThatThrownBy(batches::next).isInstanceOf(LoadException.class).hasMessageContaining("empty.png");
        }
        Path other = root.resolve("other");
        Files.createDirectories(other.resolve("a"));
        Files.write(other.resolve("a/whole.png"), bytes);
        try (DataLoader loader = DataLoader.of(ImageFolder.of(other, 8, 8).maxPixels(1599)).workers(0).build()) {
            assertThatThrownBy(() -> loader.epoch(0).iterator().next()).isInstanceOf(LoadException.class)
                    .hasMessageContaining("at most 1599 pixels, found 40 x 40");
        }
    }

    /** The decoder of the JDK does not verify checksums, and fills what it cannot decompress. */
    @Test
    void noFlippedBitOfAPngChangesItsPixels() throws IOException {
        Random random = new Random(1);
        int[] waves = IntStream.range(0, 28 * 28).map(i -> 0x010101 * (int) (127 + 100 * Math.sin(0.2 * (i % 28))
                * Math.cos(0.3 * (i / 28)) + random.nextInt(20))).toArray();
        byte[] bytes = Files.readAllBytes(write("x.png", image(BufferedImage.TYPE_BYTE_GRAY, 28, 28, waves)));
        float[] pixels = read("x.png", 1).pixels();
        for (int i = 0; i < 8 * bytes.length; i += 7) {
            byte[] flipped = bytes.clone();
            flipped[i / 8] ^= (byte) (1 << i % 8);
            Files.write(root.resolve("x.png"), flipped);
            try {
                assertThat(read("x.png", 1).pixels()).as("bit %d", i).isEqualTo(pixels);
            } catch (DataException e) {
                assertThat(e).as("bit %d", i).hasMessageContaining("x.png");
            }
        }
        Arrays.fill(bytes, bytes.length / 2, bytes.length, (byte) 0);
        Files.write(root.resolve("x.png"), bytes);
        refuses("x.png", "intact image", "CRC-32");
        byte[] unended = Files.readAllBytes(write("y.png", noise(1, BufferedImage.TYPE_BYTE_GRAY, 28)));
        Files.write(root.resolve("y.png"), Arrays.copyOf(unended, unended.length - 12));
        refuses("y.png", "intact image");
    }

    private void refuses(String name, String... parts) {
        assertThatThrownBy(() -> read(name, 3)).isInstanceOf(DataException.class).hasMessageContaining(name)
                .hasMessageContainingAll(parts);
    }

    @Test
    void givesAnImageOrAnErrorForAnyBytes() throws IOException {
        String[] formats = {"png", "jpg", "gif", "bmp"};
        int images = 0;
        for (int seed = 0; seed < 400; seed++) {
            String name = "x." + formats[seed % formats.length];
            byte[] bytes = Files.readAllBytes(write(name, noise(seed, BufferedImage.TYPE_INT_RGB, 9)));
            Random random = new Random(seed);
            for (int i = 0; i < 1 + seed % 5; i++) {
                bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
            }
            Files.write(root.resolve(name), bytes);
            try {
                for (float pixel : read(name, 3).pixels()) {
                    assertThat(pixel).isBetween(0f, 1f);
                }
                images++;
            } catch (DataException e) {
                assertThat(e).as("seed %d", seed).hasMessageContaining(name);
            }
        }
        assertThat(images).isBetween(20, 380);
    }

    @Test
    void listsAFolderForEachClass() throws IOException {
        write("dog/2.png", image(BufferedImage.TYPE_INT_RGB, 1, 1, 1));
        write("cat/sub/1.png", image(BufferedImage.TYPE_INT_RGB, 1, 1, 1));
        write("cat/3.jpg", image(BufferedImage.TYPE_INT_RGB, 1, 1, 1));
        Files.move(root.resolve("cat/3.jpg"), root.resolve("cat/3.JPG"));
        Files.writeString(root.resolve("cat/notes.txt"), "no image");
        Files.writeString(root.resolve("cat/.hidden.png"), "no image");
        write("cat/.ipynb_checkpoints/1.png", image(BufferedImage.TYPE_INT_RGB, 1, 1, 1));
        Files.createDirectory(root.resolve(".git"));
        Files.writeString(root.resolve("readme.md"), "no class");
        ImageFolder folder = ImageFolder.of(root, 1, 1);
        assertThat(folder.classes()).containsExactly("cat", "dog");
        assertThat(folder.labels()).containsExactly(0, 0, 1);
        assertThat(folder.file(0)).hasFileName("3.JPG");
        assertThat(folder.file(1)).hasFileName("1.png");
        Files.createDirectory(root.resolve("fish"));
        assertThatThrownBy(() -> ImageFolder.of(root, 1, 1)).isInstanceOf(DataException.class)
                .hasMessageContaining("fish");
        assertThatThrownBy(() -> ImageFolder.of(root.resolve("fish"), 1, 1)).isInstanceOf(DataException.class)
                .hasMessageContaining("a folder for each class");
        assertThatThrownBy(() -> ImageFolder.of(root.resolve("none"), 1, 1)).isInstanceOf(DataException.class);
        assertThatThrownBy(() -> ImageFolder.of(root, 0, 1)).isInstanceOf(TensorException.class);
    }

    private static List<String> read(ImageFolder folder, int workers, int epoch) {
        List<String> read = new ArrayList<>();
        try (DataLoader loader = DataLoader.of(folder).batchSize(5).workers(workers).seed(3).shuffle().build()) {
            for (Batch batch : loader.epoch(epoch)) {
                read.add(Arrays.toString(batch.input().toFloats()) + Arrays.toString(batch.target().toLongs()));
            }
        }
        return read;
    }

    @Test
    void changesImagesByEpochAndWithAnyNumberOfWorkersAlike() throws IOException {
        for (int i = 0; i < 12; i++) {
            write((i % 3 == 0 ? "a/" : "b/") + i + ".png", noise(i, BufferedImage.TYPE_INT_RGB, 7));
        }
        ImageFolder plain = ImageFolder.of(root, 6, 5);
        ImageFolder folder = plain.transforms(Transforms.randomResizedCrop(6, 5, 0.3, 1), Transforms.randomFlip(),
                Transforms.randomRotation(20), Transforms.colorJitter(0.3, 0.3, 0.3), Transforms.cutOut(2)
                .withProbability(0.5));
        List<String> batches = read(folder, 0, 0);
        assertThat(read(folder, 3, 0)).isEqualTo(batches);
        assertThat(read(folder, 1, 1)).isNotEqualTo(batches);
        assertThat(read(plain, 1, 0)).isNotEqualTo(batches);
        assertThat(folder.grey().fields().get(0).shape().dims()).containsExactly(1, 6, 5);
        assertThatThrownBy(() -> read(plain.transforms((image, random) -> Image.black(1, 2, 2)), 0, 0))
                .isInstanceOf(LoadException.class).hasMessageContaining("3 channels");

        List<ImageFolder> parts = plain.split(5, 0.5, 0.25, 0.25);
        assertThat(parts.get(0).labels()).hasSize(6).containsOnly(0, 1);
        for (ImageFolder part : parts) {
            // A third of the images is of class a.
            assertThat(Arrays.stream(part.labels()).filter(label -> label == 0).count()).isEqualTo(part.size() / 3);
        }
    }
}
