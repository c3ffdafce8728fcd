package dev.starling.distributed.launch;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RankProcessTest {
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    @EnabledOnOs(OS.LINUX)
    void tellsWhatMayHaveKilledAProcessUnlessTheLauncherDid(boolean launcher) throws Exception {
        RankProcess ended = RankProcess.start(3, new ProcessBuilder("sleep", "100"), false);
        if (launcher) {
            assertThat(ended.signal(Signals.KILL)).isTrue();
        } else {
            assertThat(Signals.send(ended.process.pid(), Signals.KILL)).isTrue();
        }
        assertThat(ended.process.waitFor(20, TimeUnit.SECONDS)).isTrue();
        assertThat(ended.account()).contains("was ended by SIGKILL (status 137)")
                .matches(text -> text.contains("memory") != launcher);
    }

    @Test
    void namesTheLimitOfOpenFilesThatAStartExceeds() {
        LaunchException e = LaunchException.notStarted(2, "rank 2", new IOException("Cannot run program \"setsid\": Bad"
                + " file descriptor, error: 24 (Too many open files)\nPossible reasons:\n  - others"));
        assertThat(e).hasMessageContaining("cannot start rank 2: Cannot run program").hasMessageContaining("ulimit -n")
                .hasMessageNotContaining("Possible");
        assertThat(LaunchException.notStarted(-1, "the launch", new IOException("another")))
                .hasMessageContaining("cannot start the launch: java.io.IOException: another")
                .hasMessageNotContaining("ulimit");
    }

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
