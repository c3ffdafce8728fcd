package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
class WorkTest {
    private final List<String> events = new CopyOnWriteArrayList<>();
    private final Work work = new Work("the work");

    private void keep(String resource) {
        work.keep(resource, events::add);
    }

    @Test
    void closesInReverseOrderOnceAlthoughOneFails() {
        keep("first");
        work.keep("broken", name -> {
            throw new IllegalStateException("cannot be closed");
        });
        keep("last");
        work.close(Duration.ofSeconds(1), () -> events.add("saved"));
        work.close(Duration.ofSeconds(1), () -> events.add("saved"));
        assertThat(events).containsExactly("saved", "last", "first");
        assertThat(work.step(() -> 7)).isZero();
    }

    @Test
    void closesAfterAStepThatOutlastsTheWait() throws Exception {
        keep("client");
        CountDownLatch stepping = new CountDownLatch(1);
        CountDownLatch goOn = new CountDownLatch(1);
        CompletableFuture<Integer> step = CompletableFuture.supplyAsync(() -> work.step(() -> {
            stepping.countDown();
            try {
                assertThat(goOn.await(20, TimeUnit.SECONDS)).isTrue();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            return 3;
        }));
        assertThat(stepping.await(20, TimeUnit.SECONDS)).isTrue();
        work.close(Duration.ofMillis(1), () -> events.add("saved"));
        assertThat(events).as("during the step").isEmpty();
        goOn.countDown();
        assertThat(step.get(20, TimeUnit.SECONDS)).isEqualTo(3);
        assertThat(events).containsExactly("client");
        work.close(Duration.ofSeconds(1), () -> events.add("saved"));
        assertThat(events).as("nothing is saved from closed resources").containsExactly("client");
    }

    /** The thread that runs the steps closes, too, and is usually faster than one that has waited for the step. */
    @Test
    void runsTheLastActionOnWhicheverThreadClosesFirst() throws Exception {
        keep("client");
        CountDownLatch stepping = new CountDownLatch(1);
        CompletableFuture<Void> runner = CompletableFuture.runAsync(() -> {
            work.step(() -> {
                stepping.countDown();
                while (!work.isClosed()) {
                    Thread.onSpinWait();
                }
                return 1;
            });
            work.close(Duration.ofSeconds(10), () -> events.add("saved"));
        });
        assertThat(stepping.await(20, TimeUnit.SECONDS)).isTrue();
        work.close(Duration.ofSeconds(10), () -> events.add("saved"));
        runner.get(20, TimeUnit.SECONDS);
        assertThat(events).containsExactly("saved", "client");
    }

    @Test
    void closesAfterAStepThatClosesItself() {
        keep("client");
        assertThat(work.step(() -> {
            work.close(Duration.ofSeconds(1), () -> events.add("saved"));
            return events.size();
        })).isZero();
        assertThat(events).containsExactly("client");
    }

    @Test
    void closesOnAThreadThatIsInterrupted() {
        work.keep("client", name -> events.add(name + " " + Thread.currentThread().isInterrupted()));
        Thread.currentThread().interrupt();
        work.close(Duration.ofSeconds(1), () -> events.add("saved " + Thread.currentThread().isInterrupted()));
        assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        assertThat(events).containsExactly("saved false", "client false");
    }

    @Test
    void closesWhereTheLastActionFails() {
        keep("client");
        assertThatThrownBy(() -> work.close(Duration.ofSeconds(1), () -> {
            throw new StreamException("the disk is full");
        })).hasMessage("the disk is full");
        assertThat(events).containsExactly("client");
    }
}
