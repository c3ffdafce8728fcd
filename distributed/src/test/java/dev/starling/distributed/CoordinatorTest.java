package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;

class CoordinatorTest {
    private static final Duration SOON = Duration.ofSeconds(5);

    private final TransportConfig config = TransportConfig.of("local", Secret.random())
            .livenessTimeout(Duration.ofSeconds(2));
    private final List<Runnable> everybody = new ArrayList<>();

    /** A process that says to the coordinator whatever the test wants. */
    private final class Client implements AutoCloseable {
        private final Transport transport;
        private final Outbox outbox;
        private final Queue<Control> heard = new ArrayDeque<>();

        Client(Coordinator coordinator) {
            transport = Transport.open(config);
            transport.onMessage(this::take);
            outbox = new Outbox(transport.connect(coordinator.address(), new byte[0]));
            everybody.add(() -> {
                transport.doWork();
                outbox.doWork();
            });
            say(new Control.Join(transport.address(), "host", -1));
        }

        private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
            byte[] body = new byte[length - Channels.HEADER];
            buffer.getBytes(offset + Channels.HEADER, body);
            try {
                heard.add(Control.decode(body));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        void say(Control message) {
            outbox.send(Channels.CONTROL, message);
        }

        /** Waits for the next message. */
        Control hear() {
            transport.await(() -> {
                everybody.forEach(Runnable::run);
                return !heard.isEmpty();
            }, SOON, "a word of the coordinator");
            return heard.remove();
        }

        void hearView(long epoch, int world) {
            assertThat(hear()).isInstanceOfSatisfying(Control.NewView.class, m -> {
                assertThat(m.view().epoch()).isEqualTo(epoch);
                assertThat(m.view().world()).isEqualTo(world);
            });
        }

        @Override
        public void close() {
            transport.close();
        }
    }

    @Test
    void doesNotWaitForAMemberThatHasLeft() {
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client stays = new Client(coordinator);
                Client leaves = new Client(coordinator)) {
            stays.hearView(1, 2);
            leaves.hearView(1, 2);
            stays.say(new Control.Ready(1));
            leaves.say(new Control.Ready(1));
            assertThat(stays.hear()).isEqualTo(new Control.Start(1));
            assertThat(leaves.hear()).isEqualTo(new Control.Start(1));
            try (Client comes = new Client(coordinator)) {
                comes.hearView(2, 3);
                stays.hearView(2, 3);
                leaves.hearView(2, 3);
                leaves.say(new Control.Leave());
                stays.say(new Control.Ready(2));
                comes.say(new Control.Ready(2));
                stays.hearView(3, 2);
                comes.hearView(3, 2);
                stays.say(new Control.Ready(3));
                comes.say(new Control.Ready(3));
                assertThat(stays.hear()).isEqualTo(new Control.Start(3));
                assertThat(comes.hear()).isEqualTo(new Control.Start(3));
            }
        }
    }

    private Coordinator open(int world, OnLoss onLoss) {
        Coordinator coordinator = Coordinator.open(config, world, onLoss, 1, SOON);
        everybody.add(coordinator::doWork);
        return coordinator;
    }

    private static void begin(Client... all) {
        for (Client each : all) {
            each.hearView(1, all.length);
            each.say(new Control.Ready(1));
        }
        for (Client each : all) {
            assertThat(each.hear()).isEqualTo(new Control.Start(1));
        }
    }

    /** Numbers are given from 1 on, in the order of coming. */
    private static Control.Suspect suspect(long id) {
        return new Control.Suspect(1, id, 7_000_000, "does not answer");
    }

    @Test
    void endsWithTheHigherOfTwoThatSuspectEachOther() {
        try (Coordinator coordinator = open(3, OnLoss.END); Client first = new Client(coordinator);
                Client second = new Client(coordinator); Client third = new Client(coordinator)) {
            begin(first, second, third);
            first.say(suspect(2));
            second.say(suspect(1));
            assertThat(second.hear()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("rank 1 was excluded").contains("does not answer"));
            for (Client each : List.of(first, third)) {
                assertThat(each.hear()).isInstanceOfSatisfying(Control.Lost.class, m -> {
                    assertThat(m.rank()).isOne();
                    assertThat(m.unheardNs()).isGreaterThanOrEqualTo(7_000_000);
                });
            }
        }
    }

    @Test
    void endsAtOnceWithOneThatIsSuspectedAndLeaves() {
        try (Coordinator coordinator = open(3, OnLoss.END); Client first = new Client(coordinator);
                Client second = new Client(coordinator); Client third = new Client(coordinator)) {
            begin(first, second, third);
            second.say(suspect(1));
            first.say(suspect(2));
            first.say(new Control.Leave());
            for (Client each : List.of(second, third)) {
                assertThat(each.hear()).isInstanceOfSatisfying(Control.Lost.class, m -> assertThat(m.rank()).isZero());
            }
        }
    }

    @Test
    void takesWhoComesInPlaceOfOneThatIsNotKnownToBeGoneYet() {
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client first = new Client(coordinator);
                Client dead = new Client(coordinator)) {
            first.hearView(1, 2);
            dead.hearView(1, 2);
            try (Client replacement = new Client(coordinator)) {
                first.hearView(2, 3);
                replacement.hearView(2, 3);
                dead.close();
                first.hearView(3, 2);
                replacement.hearView(3, 2);
            }
        }
    }

    @Test
    void refusesOneTooManyWhereNewcomersAreNot() {
        try (Coordinator coordinator = open(2, OnLoss.END); Client first = new Client(coordinator);
                Client second = new Client(coordinator)) {
            first.hearView(1, 2);
            second.hearView(1, 2);
            try (Client third = new Client(coordinator)) {
                assertThat(third.hear()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                        .contains("the group of 2 is complete"));
            }
        }
    }
}
