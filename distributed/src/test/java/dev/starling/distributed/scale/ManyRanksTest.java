package dev.starling.distributed.scale;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** A large group joins, reduces, loses some of its ranks and admits as many others. */
class ManyRanksTest {
    private static final Logger LOG = Logger.getLogger("dev.starling");
    private final Level level = LOG.getLevel();

    @BeforeEach
    void silence() {
        LOG.setLevel(Level.SEVERE);
        Logger.getLogger(ManyRanks.class.getName()).setLevel(Level.INFO);
    }

    @AfterEach
    void restore() {
        LOG.setLevel(level);
    }

    private static void check(ManyRanks run, int maxLinks, int mostEpochs) {
        assertThat(run.maxLinks()).isLessThanOrEqualTo(maxLinks);
        // The first, one after all losses, one after all joins, and some for those that were noticed late.
        assertThat(run.epochs()).hasSizeLessThanOrEqualTo(mostEpochs);
        assertThat(run.stages()).hasSize(7);
        assertThat(run.stages().getFirst().virtual()).isLessThan(Duration.ofSeconds(1));
    }

    @Test
    void worksWithMoreRanksThanAllConnectToEachOther() {
        check(ManyRanks.run(40, 8, 3), 24, 4);
    }

    @Test
    @Tag("stress")
    void worksWithAThousandRanks() {
        check(ManyRanks.run(1024, 8, 10), 30, 5);
    }
}
