package dev.starling.nn.chart;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PictureTest {
    /** A run that is cancelled while it draws its curve must still end. */
    @Test
    void keepsAnInterrupt(@TempDir Path directory) {
        Thread.currentThread().interrupt();
        Picture.write(directory.resolve("curve.png"), 300, 200, canvas -> new LineChart("title", "x", false)
                .line("line", "#000000", true, new double[] {1, 2}, new double[] {1, 2}).draw(canvas, 0, 0, 300, 200));
        assertThat(Thread.interrupted()).isTrue();
    }
}
