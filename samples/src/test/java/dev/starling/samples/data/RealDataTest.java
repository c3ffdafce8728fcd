package dev.starling.samples.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.data.LabelledImages;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/**
 * Reads the real sets if they are available: in {@code -Dstarling.data=DIR}, or in the directory of downloads.
 * Downloads nothing. The expected values are the sets' published counts, means and deviations.
 */
class RealDataTest {
    private final DataDirectory directory = DataDirectory.of(
        System.getProperty("starling.data") == null ? null : Path.of(System.getProperty("starling.data")), System.err);

    @Test
    void readsMnist() {
        Mnist.FILES.forEach(file -> assumeTrue(directory.find(Mnist.FOLDERS, file.fileName()).isPresent(),
            () -> "no " + file.fileName() + " in " + directory.root() + "; set -Dstarling.data=DIR"));
        Split mnist = Mnist.load(directory);
        assertThat(counts(mnist.train()))
            .containsExactly(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949);
        assertThat(counts(mnist.test())).containsExactly(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009);
        assertMoments(mnist.train(), 0, Mnist.MEAN, Mnist.STD, 1e-4);
    }

    @Test
    void readsCifar10() {
        assumeTrue(Files.isDirectory(directory.root()), () -> "no " + directory.root() + "; set -Dstarling.data=DIR");
        Cifar10.TRAIN.forEach(name -> assumeTrue(directory.find(Cifar10.FOLDERS, name).isPresent(),
            () -> "no " + name + " in " + directory.root() + "; set -Dstarling.data=DIR"));
        Split cifar = Cifar10.load(directory);
        assertThat(counts(cifar.train())).containsOnly(5000).hasSize(10);
        assertThat(counts(cifar.test())).containsOnly(1000).hasSize(10);
        for (int c = 0; c < 3; c++) {
            assertMoments(cifar.train(), c, Cifar10.mean()[c], Cifar10.std()[c], 2e-3);
        }
    }

    private static int[] counts(LabelledImages images) {
        int[] counts = new int[images.classes()];
        for (int i = 0; i < images.count(); i++) {
            counts[images.label(i)]++;
        }
        return counts;
    }

    private static void assertMoments(LabelledImages images, int channel, double mean, double std, double tolerance) {
        long sum = 0;
        long squares = 0;
        int plane = images.height() * images.width();
        for (int i = 0; i < images.count(); i++) {
            for (int p = 0; p < plane; p++) {
                int value = images.pixels()[images.offset(i) + channel * plane + p] & 0xff;
                sum += value;
                squares += value * value;
            }
        }
        double count = (double) images.count() * plane * 255;
        double measured = sum / count;
        assertThat(measured).isCloseTo(mean, within(tolerance));
        assertThat(Math.sqrt(squares / (count * 255) - measured * measured)).isCloseTo(std, within(tolerance));
    }
}
