package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;

class RankProcessTest {
    /** With a locale's own digits a reader could not pass the number of the process to another command. */
    @Test
    @EnabledOnOs(OS.LINUX)
    void describesEndsWithTheSameDigitsInEachLocale() throws Exception {
        RankProcess ended = RankProcess.start(12, new ProcessBuilder("true"), false);
        assertThat(ended.process.waitFor(20, TimeUnit.SECONDS)).isTrue();
        Locale before = Locale.getDefault(Locale.Category.FORMAT);
        Locale.setDefault(Locale.Category.FORMAT, Locale.forLanguageTag("ar-EG-u-nu-arab"));
        try {
            assertThat(ended.describeEnd()).matches("rank 12 \\(process " + ended.process.pid()
                    + "\\) .* after -?[0-9]+\\.[0-9] s");
        } finally {
            Locale.setDefault(Locale.Category.FORMAT, before);
        }
    }
}
