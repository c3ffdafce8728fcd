package dev.starling.tensor.op;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.TensorException;
import org.junit.jupiter.api.Test;

class PhiloxTest {
    /**
     * The known answers of the Random123 distribution (kat_vectors, philox4x32 10) that our counter block can express.
     */
    @Test
    void givesTheKnownAnswers() {
        assertThat(block(0, 0)).containsExactly(0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8);
    }

    @Test
    void agreesWithThePaperWordByWord() {
        assertThat(block(0x243F6A8885A308D3L, 0x13198A2E03707344L))
                .containsExactly(blockByWords(0x243F6A8885A308D3L, 0x13198A2E03707344L));
        assertThat(block(-1, -1)).containsExactly(blockByWords(-1, -1));
    }

    @Test
    void refusesALaneOutOfRange() {
        assertThatExceptionOfType(TensorException.class)
                .isThrownBy(() -> Philox.bits(1, 2, 4))
                .withMessageContaining("lane");
    }

    @Test
    void drawsUniformNumbersWithTheMomentsOfTheDistribution() {
        int n = 1 << 20;
        double sum = 0;
        double squares = 0;
        for (int i = 0; i < n; i++) {
            float u = Philox.uniformAt(42, 7, i);
            assertThat(u >= 0 && u < 1).isTrue();
            sum += u;
            squares += u * u;
        }
        assertThat(sum / n).isCloseTo(0.5, within(0.002));
        assertThat(squares / n).isCloseTo(1.0 / 3, within(0.002));
    }

    @Test
    void makesNormalNumbersByBoxMuller() {
        for (int i = 0; i < 200_000; i++) {
            int a = Philox.bits(3, i, 0);
            int b = Philox.bits(3, i, 1);
            double radius = StrictMath.sqrt(-2 * StrictMath.log(((a >>> 8) + 1) / 0x1p24));
            double angle = 2 * Math.PI * ((b >>> 8) / 0x1p24);
            assertThat((double) Philox.normal(a, b, false)).isCloseTo(radius * StrictMath.cos(angle), within(1.5e-6));
            assertThat((double) Philox.normal(a, b, true)).isCloseTo(radius * StrictMath.sin(angle), within(1.5e-6));
        }
        assertThat(Philox.normal(-1, 0, false)).isZero();
        assertThat((double) Philox.normal(0, 0, false)).isCloseTo(Math.sqrt(48 * Math.log(2)), within(1e-6));
    }

    @Test
    void drawsNormalNumbersWithTheMomentsOfTheDistribution() {
        int n = 1 << 20;
        double[] moments = new double[5];
        for (int i = 0; i < n; i++) {
            double z = Philox.normalAt(1, 1L << 40, i);
            for (int k = 1; k < 5; k++) {
                moments[k] += Math.pow(z, k) / n;
            }
        }
        assertThat(moments[1]).isCloseTo(0, within(0.004));
        assertThat(moments[2]).isCloseTo(1, within(0.006));
        assertThat(moments[3]).isCloseTo(0, within(0.02));
        assertThat(moments[4]).isCloseTo(3, within(0.05));
    }

    @Test
    void numbersElementsByCounterAndLane() {
        assertThat(Philox.bitsAt(5, 100, 11)).isEqualTo(Philox.bits(5, 102, 3));
        assertThat(Philox.normalAt(5, 100, 11))
                .isEqualTo(Philox.normal(Philox.bits(5, 102, 2), Philox.bits(5, 102, 3), true));
        assertThat(Philox.counters(0)).isZero();
        assertThat(Philox.counters(5)).isEqualTo(2);
    }

    private static int[] block(long seed, long counter) {
        return new int[] {Philox.bits(seed, counter, 0), Philox.bits(seed, counter, 1), Philox.bits(seed, counter, 2),
            Philox.bits(seed, counter, 3)};
    }

    /** The generator as its paper defines it, word by word. */
    private static int[] blockByWords(long seed, long counter) {
        int[] c = {(int) counter, (int) (counter >>> 32), 0, 0};
        int[] k = {(int) seed, (int) (seed >>> 32)};
        for (int round = 0; round < 10; round++) {
            long p0 = Integer.toUnsignedLong(c[0]) * 0xD2511F53L;
            long p1 = Integer.toUnsignedLong(c[2]) * 0xCD9E8D57L;
            c = new int[] {(int) (p1 >>> 32) ^ c[1] ^ k[0], (int) p1, (int) (p0 >>> 32) ^ c[3] ^ k[1], (int) p0};
            k = new int[] {k[0] + 0x9E3779B9, k[1] + 0xBB67AE85};
        }
        return c;
    }
}
