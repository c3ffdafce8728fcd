package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.wire.SessionMessage.Hello;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.util.Arrays;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PlanPartsTest {
    private static final byte[] PLAN = {1, 2, 3, 4, 5};

    private final Transport transport = Transport.open(TransportConfig.of("local", Secret.random()));
    private final PlanParts parts = new PlanParts();

    @AfterEach
    void close() {
        transport.close();
    }

    private Endpoint worker() {
        return transport.connect("local-0", new byte[0]);
    }

    private byte[] add(Endpoint from, int begin, int end) throws IOException {
        return parts.add(from, new Hello(PLAN.length, begin, Arrays.copyOfRange(PLAN, begin, end)));
    }

    @Test
    void assemblesThePlansOfSeveralWorkers() throws IOException {
        Endpoint one = worker();
        Endpoint other = worker();
        assertThat(add(one, 0, 3)).isNull();
        assertThat(add(other, 0, 1)).isNull();
        assertThat(parts.pendingBytes()).isEqualTo(4);
        assertThat(add(one, 3, 5)).isEqualTo(PLAN);
        assertThat(add(other, 1, 5)).isEqualTo(PLAN);
        assertThat(add(one, 0, 5)).isEqualTo(PLAN);
        assertThat(parts.pendingBytes()).isZero();
    }

    /** The group drops the oldest of too many early messages; a worker that gets no answer begins again. */
    @Test
    void ignoresPartsThatDoNotFollowEachOther() throws IOException {
        Endpoint worker = worker();
        assertThat(add(worker, 1, 5)).isNull();
        assertThat(add(worker, 0, 2)).isNull();
        assertThat(add(worker, 3, 5)).isNull();
        assertThat(parts.pendingBytes()).isZero();
        assertThat(add(worker, 2, 5)).isNull();
        assertThat(add(worker, 0, 2)).isNull();
        assertThat(add(worker, 2, 5)).isEqualTo(PLAN);
    }

    @Test
    void refusesMalformedParts() {
        Endpoint worker = worker();
        assertThatThrownBy(() -> parts.add(worker, new Hello(4, 0, PLAN))).hasMessageContaining("malformed");
        assertThatThrownBy(() -> parts.add(worker, new Hello(65 << 20, 0, PLAN))).hasMessageContaining("malformed");
    }

    @Test
    void dropsThePartsOfAWorkerThatIsGone() throws IOException {
        Endpoint gone = worker();
        assertThat(add(gone, 0, 3)).isNull();
        gone.close();
        assertThat(add(worker(), 0, 1)).isNull();
        assertThat(parts.pendingBytes()).isOne();
    }

    @Test
    void boundsWhatIsIncomplete() throws IOException {
        PlanParts few = new PlanParts(5);
        Endpoint worker = worker();
        assertThat(few.add(worker, new Hello(9, 0, PLAN))).isNull();
        assertThatThrownBy(() -> few.add(worker(), new Hello(9, 0, new byte[1]))).isInstanceOf(IOException.class)
                .hasMessageContaining("too many plans");
        worker.close();
        assertThat(few.add(worker(), new Hello(5, 0, PLAN))).isEqualTo(PLAN);
    }
}
