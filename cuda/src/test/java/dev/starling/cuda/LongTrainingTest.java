package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Device;
import java.awt.image.BufferedImage;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import javax.imageio.ImageIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** What {@code gpu-check} does for long on a GPU, in short on an emulated one. */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isPossible", disabledReason = "needs g++ on x86-64")
class LongTrainingTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 0);

    @Test
    void trainingGivesTheCpusCurve(@TempDir Path pictures) throws IOException {
        assertThat(Parity.runTiny(DEVICE, pictures)).isTrue();
        BufferedImage picture = ImageIO.read(pictures.resolve("curves-mnist.png").toFile());
        // A line for each curve, the last ones above the others.
        assertThat(Arrays.stream(picture.getRGB(0, 0, picture.getWidth(), picture.getHeight(), null, 0,
                picture.getWidth())).distinct().count()).isGreaterThan(3);
    }

    @Test
    void aCurveThatLeavesTheOtherIsNoticed() {
        double[] cpu = {2, 1.9, 1.8, 1.7, 1.6, 1.5, 1.4, 1.3, 1.2, 1.1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
        assertThat(Parity.difference(cpu, cpu.clone())).isNull();
        double[] early = cpu.clone();
        early[3] += 0.03;
        assertThat(Parity.difference(cpu, early)).contains("step 3");
        double[] late = cpu.clone();
        late[12] += 0.5;
        assertThat(Parity.difference(cpu, late)).isNull();
        late[15] += 0.6;
        assertThat(Parity.difference(cpu, late)).contains("mean from step 10");
        early[3] = Double.NaN;
        assertThat(Parity.difference(cpu, early)).contains("step 3");
    }

    @Test
    @EnabledOnOs(value = OS.LINUX, disabledReason = "resident memory is read from /proc")
    void deviceMemoryIsFlat() {
        // Resident memory is other tests', too.
        assertThat(Endurance.train(DEVICE, 40, 8, false)).hasSize(10).satisfies(readings -> {
            Endurance.Reading first = readings.get(1);
            Endurance.Reading last = readings.getLast();
            assertThat(last.live()).isEqualTo(first.live());
            assertThat(last.requests()).isEqualTo(first.requests());
        });
    }

    @Test
    void growthIsNoticed() {
        Endurance.Reading first = new Endurance.Reading(10, 100, 5, 1000, 10_000);
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 1000, 10_100))).isNull();
        assertThat(first.growthTo(new Endurance.Reading(20, 101, 5, 1000, 10_000))).contains("live device memory");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 6, 1000, 10_000))).contains("1 times more");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 999, 10_000))).contains("free memory");
        assertThat(first.growthTo(new Endurance.Reading(20, 100, 5, 1000, 10_300))).contains("resident");
    }
}
