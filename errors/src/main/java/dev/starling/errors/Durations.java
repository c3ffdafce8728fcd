package dev.starling.errors;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.Duration;

/** Durations as messages print them. */
public final class Durations {
    private static final int NANO_DIGITS = 9;
    private static final int DECIMALS = 3;

    private Durations() {
    }

    /** Returns a text such as {@code 8 s}, {@code 1.5 s} or {@code 200 ms}, with at most three decimals. */
    public static String text(Duration duration) {
        BigDecimal seconds = BigDecimal.valueOf(duration.getSeconds())
                .add(BigDecimal.valueOf(duration.getNano(), NANO_DIGITS));
        boolean isShort = seconds.signum() != 0 && seconds.abs().compareTo(BigDecimal.ONE) < 0;
        return (isShort ? seconds.movePointRight(DECIMALS) : seconds).setScale(DECIMALS, RoundingMode.HALF_UP)
                .stripTrailingZeros().toPlainString() + (isShort ? " ms" : " s");
    }
}
