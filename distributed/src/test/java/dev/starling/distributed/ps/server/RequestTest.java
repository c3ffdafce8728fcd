package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import org.junit.jupiter.api.Test;

class RequestTest {
    private static final int BLOCK = 100;

    @Test
    void refusesRowsThatNoRecordCanHold() {
        Request request = new Request(BLOCK, 2);
        assertThatThrownBy(() -> request.reserveRows(3_000_000, 200)).isInstanceOf(DistributedException.class)
                .hasMessageContaining("3000000 rows");
        assertThat(request.rows).isEmpty();
    }

    /** In a synchronous step the last message has the rows of all messages of all workers. */
    @Test
    void keepsNoMoreMemoryThanRowsOfOneMessageNeed() {
        Request request = new Request(BLOCK, 2);
        request.reserveRows(BLOCK / 3, 4);
        float[] few = request.rows;
        request.release();
        assertThat(request.rows).isSameAs(few);
        request.reserveRows(10_000, 4);
        assertThat(request.keys.length).isGreaterThanOrEqualTo(10_000);
        request.release();
        assertThat(request.rows.length).isLessThanOrEqualTo(4 * BLOCK);
        assertThat(request.keys).hasSize(BLOCK / 2);
    }
}
