package dev.starling.samples;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.data.DataException;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Checks the pixels of the learning curve: they are where its points are. */
class LearningCurveTest {
    private static final int TRAIN = 0x9db8d2;
    private static final int HELD_OUT = 0xd1495b;

    @TempDir
    Path dir;

    @Test
    void drawsBothCurvesInBothPanels() throws IOException {
        LearningCurve curve = new LearningCurve("test");
        for (int i = 1; i <= 5000; i++) {
            curve.train(i / 1000.0, 2.0 * Math.exp(-i / 1000.0), 1 - Math.exp(-i / 1000.0));
        }
        curve.heldOut(1, 1.5, 0.3);
        curve.heldOut(5, 0.2, 0.9);
        BufferedImage image = write(curve, "new/folder/curve.png");
        assertThat(image.getWidth()).isEqualTo(2 * image.getHeight() * 560 / 400);
        int middle = image.getWidth() / 2;
        for (int color : new int[] {TRAIN, HELD_OUT}) {
            assertThat(count(image, color, 0, middle)).isGreaterThan(200);
            assertThat(count(image, color, middle, image.getWidth())).isGreaterThan(200);
        }
    }

    @Test
    void drawsASinglePointAndNoPointAtAll() throws IOException {
        LearningCurve curve = new LearningCurve("test");
        BufferedImage empty = write(curve, "empty.png");
        assertThat(count(empty, HELD_OUT, 0, empty.getWidth())).isZero();
        curve.train(1, 0.5, 0.7);
        curve.heldOut(1, 0.3, 0.8);
        BufferedImage image = write(curve, "one.png");
        assertThat(count(image, TRAIN, 0, image.getWidth())).isGreaterThan(100);
        assertThat(count(image, HELD_OUT, 0, image.getWidth())).isGreaterThan(100);
    }

    @Test
    void leavesOutLossesThatAreNotFinite() throws IOException {
        LearningCurve curve = new LearningCurve("diverged");
        curve.train(1, Double.NaN, 0.1);
        curve.train(2, Double.POSITIVE_INFINITY, 0.1);
        curve.heldOut(2, Double.NaN, 0.1);
        BufferedImage image = write(curve, "diverged.png");
        assertThat(count(image, TRAIN, 0, image.getWidth()) + count(image, HELD_OUT, 0, image.getWidth())).isZero();
    }

    @Test
    void reportsAFileThatCannotBeWritten() throws IOException {
        Path file = Files.writeString(dir.resolve("file"), "no directory");
        assertThatThrownBy(() -> new LearningCurve("test").write(file.resolve("curve.png")))
            .isInstanceOf(DataException.class).hasMessageContaining("curve.png");
    }

    private BufferedImage write(LearningCurve curve, String name) throws IOException {
        curve.write(dir.resolve(name));
        return ImageIO.read(dir.resolve(name).toFile());
    }

    private static int count(BufferedImage image, int color, int from, int to) {
        int count = 0;
        for (int y = 0; y < image.getHeight(); y++) {
            for (int x = from; x < to; x++) {
                count += (image.getRGB(x, y) & 0xffffff) == color ? 1 : 0;
            }
        }
        return count;
    }
}
