package dev.starling.jmh.cluster;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

@Timeout(60)
class MemberBenchmarkTest {
    @ParameterizedTest
    @EnumSource(Route.class)
    void passesMessages(Route route) throws Exception {
        runs(new RoundTripBenchmark(), route);
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void writesIntoThePeersMemory(Route route) throws Exception {
        runs(new PutBenchmark(), route);
    }

    @ParameterizedTest
    @EnumSource(Route.class)
    void reduces(Route route) throws Exception {
        AllReduceBenchmark benchmark = new AllReduceBenchmark();
        benchmark.bytes = 1024;
        runs(benchmark, route);
    }

    /** Runs a benchmark as JMH does, without a warm-up. */
    private static void runs(MemberBenchmark benchmark, Route route) throws Exception {
        benchmark.route = route;
        benchmark.connect();
        assertThat(benchmark.run()).isPositive();
        benchmark.disconnect();
        assertThat(Thread.getAllStackTraces().keySet()).extracting(Thread::getName)
            .doesNotContain(MemberBenchmark.PEER);
    }
}
