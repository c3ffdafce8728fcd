package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import java.awt.image.BufferedImage;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import javax.imageio.ImageIO;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Image files and Spark's image structure as inputs. */
@Timeout(120)
@ExtendWith(SharedSession.class)
class ImageColumnsTest {
    @TempDir
    private Path directory;

    /** Writes and returns an image of noise around a colour. */
    private BufferedImage image(String name, int width, int height, int colour, int noise) throws IOException {
        SplittableRandom random = new SplittableRandom(name.hashCode());
        BufferedImage image = new BufferedImage(width, height, BufferedImage.TYPE_INT_RGB);
        for (int i = 0; i < width * height; i++) {
            int varied = noise == 0 ? 0 : random.nextInt(noise) | random.nextInt(noise) << 8
                    | random.nextInt(noise) << 16;
            image.setRGB(i % width, i / width, colour ^ varied);
        }
        assertThat(ImageIO.write(image, name.substring(name.indexOf('.') + 1), directory.resolve(name).toFile()))
                .isTrue();
        return image;
    }

    private static TrainedModel pixels(long... shape) {
        ModelDescription description = ModelDescription.of(Pixels.class, Map.of());
        Map<String, String> texts = new LinkedHashMap<>(description.metadata());
        int width = (int) java.util.Arrays.stream(shape).reduce(1, (a, b) -> a * b);
        texts.putAll(new Columns(List.of(new Columns.Column("content", ColumnType.IMAGE_FILE, width)), shape, null,
                false).metadata());
        return TrainedModel.of(SafeTensors.bytes(Map.of(), texts));
    }

    private Dataset<Row> files(String glob) {
        return SharedSession.get().read().format("binaryFile").option("pathGlobFilter", glob)
                .load(directory.toString());
    }

    private static float[] only(Dataset<Row> scored) {
        List<Float> values = scored.selectExpr("v").collectAsList().getFirst().getList(0);
        float[] plain = new float[values.size()];
        for (int i = 0; i < plain.length; i++) {
            plain[i] = values.get(i);
        }
        return plain;
    }

    @Test
    void readsFilesAndSparksImages() throws IOException {
        BufferedImage noise = image("noise.png", 6, 4, 0x404040, 64);
        float[] wanted = new float[72];
        for (int i = 0; i < 24; i++) {
            int rgb = noise.getRGB(i % 6, i / 6);
            wanted[i] = rgb >> 16 & 0xFF;
            wanted[24 + i] = rgb >> 8 & 0xFF;
            wanted[48 + i] = rgb & 0xFF;
        }
        TrainedModel colours = pixels(3, 4, 6);
        assertThat(only(colours.transform(files("noise.png"), Output.ofValues("v")))).containsExactly(wanted);
        Dataset<Row> structures = SharedSession.get().read().format("image").option("pathGlobFilter", "noise.png")
                .load(directory.toString());
        assertThat(only(colours.transform(structures, List.of("image"), Output.ofValues("v"))))
                .containsExactly(wanted);
        colours.register(SharedSession.get(), "pixels_of", Output.Kind.VALUES);
        assertThat(only(structures.selectExpr("pixels_of(image) as v"))).containsExactly(wanted);
        float[] grey = only(pixels(1, 4, 6).transform(files("noise.png"), Output.ofValues("v")));
        assertThat(grey[5]).isCloseTo(0.299f * wanted[5] + 0.587f * wanted[29] + 0.114f * wanted[53], within(1e-3f));
        image("plain.jpg", 100, 37, 0x2050A0, 0);
        float[] small = only(colours.transform(files("plain.jpg"), Output.ofValues("v")));
        for (int i = 0; i < 24; i++) {
            assertThat(small[i]).isCloseTo(0x20, within(3f));
            assertThat(small[48 + i]).isCloseTo(0xA0, within(3f));
        }
        BufferedImage written = new BufferedImage(6, 4, BufferedImage.TYPE_BYTE_GRAY);
        written.getRaster().setSample(2, 1, 0, 77);
        ImageIO.write(written, "png", directory.resolve("grey.png").toFile());
        assertThat(only(pixels(1, 4, 6).transform(files("grey.png"), Output.ofValues("v")))[8]).isEqualTo(77);
    }

    @Test
    void readsAnImageWithOpacityAlikeFromBothSources() throws IOException {
        BufferedImage clear = new BufferedImage(6, 4, BufferedImage.TYPE_INT_ARGB);
        for (int i = 0; i < 24; i++) {
            clear.setRGB(i % 6, i / 6, 10 * i << 24 | 0x50A0F0);
        }
        ImageIO.write(clear, "png", directory.resolve("clear.png").toFile());
        float[] wanted = new float[72];
        java.util.Arrays.fill(wanted, 0, 24, 0x50);
        java.util.Arrays.fill(wanted, 24, 48, 0xA0);
        java.util.Arrays.fill(wanted, 48, 72, 0xF0);
        TrainedModel colours = pixels(3, 4, 6);
        Dataset<Row> structures = SharedSession.get().read().format("image").option("pathGlobFilter", "clear.png")
                .load(directory.toString());
        assertThat(only(colours.transform(structures, List.of("image"), Output.ofValues("v"))))
                .containsExactly(wanted);
        assertThat(only(colours.transform(files("clear.png"), Output.ofValues("v")))).containsExactly(wanted);
    }

    @Test
    void refusesAJpegFileThatIsCutOff() throws IOException {
        image("torn.jpg", 64, 64, 0x404040, 64);
        byte[] whole = Files.readAllBytes(directory.resolve("torn.jpg"));
        InternalRow torn = new GenericInternalRow(new Object[] {java.util.Arrays.copyOf(whole, whole.length * 3 / 4)});
        assertThatThrownBy(() -> Images.read(torn, 0, ColumnType.IMAGE_FILE, new long[] {3, 8, 8}, new float[192], 0))
                .isInstanceOf(Images.UnreadableException.class).hasMessageContaining("cannot be read: Truncated File");
    }

    @Test
    void refusesAPngFileWithAFlippedBit() throws IOException {
        image("flipped.png", 8, 8, 0x404040, 64);
        byte[] bytes = Files.readAllBytes(directory.resolve("flipped.png"));
        bytes[bytes.length - 20] ^= 1; // of the checksum of the compressed pixels
        InternalRow row = new GenericInternalRow(new Object[] {bytes});
        assertThatThrownBy(() -> Images.read(row, 0, ColumnType.IMAGE_FILE, new long[] {3, 8, 8}, new float[192], 0))
                .isInstanceOf(Images.UnreadableException.class).hasMessageContaining("CRC-32");
    }

    @Test
    void saysThatABmpFileIsCutOff() throws IOException {
        ByteArrayOutputStream whole = new ByteArrayOutputStream();
        ImageIO.write(new BufferedImage(8, 8, BufferedImage.TYPE_INT_RGB), "bmp", whole);
        InternalRow torn = new GenericInternalRow(new Object[] {java.util.Arrays.copyOf(whole.toByteArray(), 100)});
        assertThatThrownBy(() -> Images.read(torn, 0, ColumnType.IMAGE_FILE, new long[] {3, 8, 8}, new float[192], 0))
                .isInstanceOf(Images.UnreadableException.class)
                .hasMessageContaining("cannot be read: java.io.EOFException");
    }

    @Test
    void namesAFileThatIsNoImageOrReturnsNull() throws IOException {
        image("good.png", 6, 4, 0xFF0000, 0);
        Files.writeString(directory.resolve("text.png"), "no image");
        byte[] whole = Files.readAllBytes(directory.resolve("good.png"));
        Files.write(directory.resolve("torn.png"), java.util.Arrays.copyOf(whole, whole.length / 2));
        // A header that claims 60,000 x 60,000 pixels.
        byte[] huge = whole.clone();
        huge[18] = huge[22] = (byte) (60_000 >> 8);
        huge[19] = huge[23] = (byte) 60_000;
        Files.write(directory.resolve("huge.png"), huge);
        TrainedModel model = pixels(3, 4, 6);
        assertThatThrownBy(() -> model.transform(files("text.png"), Output.ofValues("v")).collectAsList())
                .hasMessageContaining("holds 8 bytes that are no image file").hasMessageContaining("text.png)");
        assertThatThrownBy(() -> model.transform(files("torn.png"), Output.ofValues("v")).collectAsList())
                .hasMessageContaining("image file that cannot be read").hasMessageContaining("torn.png)");
        assertThatThrownBy(() -> model.transform(files("huge.png"), Output.ofValues("v")).collectAsList())
                .hasMessageContaining("of 60000 x 60000 pixels; up to ").hasMessageContaining("huge.png)");
        List<Row> read = model.nullForBadRows().transform(files("*.png"), Output.ofValues("v"))
                .selectExpr("path like '%good.png'", "v is null").collectAsList();
        assertThat(read).hasSize(4).allMatch(row -> row.getBoolean(0) != row.getBoolean(1));
        assertThatThrownBy(() -> pixels(24).transform(files("good.png"), Output.ofValues("v")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("such as shape(3, 32, 32), got [24]");
    }

    @Test
    void trainsOnFilesOfDifferentSizes() throws IOException {
        for (int i = 0; i < 12; i++) {
            image("red" + i + ".png", 6 + i % 3, 4 + i % 2, 0xC02020, 32);
            image("blue" + i + ".png", 6 + i % 2, 4 + i % 3, 0x2020C0, 32);
        }
        Dataset<Row> labelled = files("*.png").selectExpr("path", "content", "int(path like '%blue%') as label");
        TrainedModel trained = SparkTrainer.of(ModelDescription.of(Pixels.class, Map.of("classes", "2")),
                Loss::crossEntropy, Choices.optimizer("adam", 0.05)).inputs("content").shape(3, 4, 6).classes("label")
                .epochs(5).batchSize(8).workers(1).fit(labelled);
        assertThat(trained.transform(labelled, Output.ofClass("c")).where("c = label").count()).isEqualTo(24);
        Dataset<Row> structures = SharedSession.get().read().format("image").load(directory.toString());
        assertThat(trained.transform(structures, List.of("image"), Output.ofClass("c"))
                .where("c = int(image.origin like '%blue%')").count()).isEqualTo(24);
    }
}
