package dev.starling.distributed.coordinator;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.Channels;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Outbox;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.IntStream;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class CoordinatorTest {
    @Test
    void sleepsWhileAnInterruptedCallerWaits() {
        try (CoordinatorThread thread = CoordinatorThread.start(Coordinator.open(
                TransportConfig.of("local", Secret.random()), 2, OnLoss.END, 1, Duration.ofSeconds(30)))) {
            Thread.currentThread().interrupt();
            long before = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            assertThat(thread.awaitDone(Duration.ofSeconds(1))).isFalse();
            assertThat(ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - before)
                    .isLessThan(300_000_000);
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
        } finally {
            Thread.interrupted();
        }
    }

    private static final Duration SOON = Duration.ofSeconds(5);
    private static final Role WORKER = new Role.Worker();

    private final TransportConfig config = TransportConfig.of("local", Secret.random())
            .livenessTimeout(Duration.ofSeconds(2));
    private final List<Runnable> processes = new ArrayList<>();

    /** A process that sends the coordinator the messages of the test. */
    private final class Client implements AutoCloseable {
        private final Transport transport;
        private final Outbox outbox;
        private final Queue<Control> received = new ArrayDeque<>();
        /** Its id in the last view that it received. */
        private long id;

        Client(Coordinator coordinator) {
            this(coordinator, new Role.Worker());
        }

        Client(Coordinator coordinator, Role role) {
            this(coordinator, -1, role);
        }

        Client(Coordinator coordinator, int preferredRank, Role role) {
            this(coordinator, new Control.Join("client" + processes.size(), "host", preferredRank,
                    role));
        }

        Client(Coordinator coordinator, Control first) {
            transport = Transport.open(config);
            transport.onMessage(this::onMessage);
            outbox = new Outbox(transport.connect(coordinator.address(), new byte[0]));
            processes.add(() -> {
                transport.doWork();
                outbox.doWork();
            });
            send(first);
        }

        private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
            byte[] body = new byte[length - Channels.HEADER];
            buffer.getBytes(offset + Channels.HEADER, body);
            try {
                received.add(Control.CODEC.decode(body));
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }

        void send(Control message) {
            outbox.send(message);
        }

        /** Waits for the next message. */
        Control receive() {
            transport.await(() -> {
                processes.forEach(Runnable::run);
                return !received.isEmpty();
            }, SOON, "a message of the coordinator");
            return received.remove();
        }

        void receiveMissing(String missing) {
            assertThat(receive()).isInstanceOfSatisfying(Control.Waiting.class,
                    m -> assertThat(m.missing()).contains(missing));
        }

        void receiveView(long epoch, int world) {
            assertThat(receive()).isInstanceOfSatisfying(Control.NewView.class, m -> {
                id = m.id();
                assertThat(m.view().epoch()).isEqualTo(epoch);
                assertThat(m.view().world()).isEqualTo(world);
            });
        }

        @Override
        public void close() {
            transport.close();
        }
    }

    /** The view of some 400 members takes several pieces. */
    @Test
    void receivesLongMessages() {
        List<Member> members = IntStream.range(0, 400).mapToObj(rank -> new Member(rank + 1, rank, rank,
                "192.0.2.1:" + rank, "host" + rank, WORKER)).toList();
        View view = new View(7, members);
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client joins = new Client(coordinator);
                Client follows = new Client(coordinator, new Control.Rejoin(1, 7, 7, false, List.of(view, view),
                        new Control.Join("192.0.2.1:0", "host0", -1, WORKER)))) {
            joins.receiveView(1, 2);
            follows.receiveView(1, 2);
        }
    }

    @ParameterizedTest
    @EnumSource(OnLoss.class)
    void refusesAnotherVersion(OnLoss onLoss) {
        try (Coordinator coordinator = open(2, onLoss); Client joins = new Client(coordinator);
                Client old = new Client(coordinator,
                        new Control.Join(Control.PROTOCOL - 1, "192.0.2.1:7", "host", -1, WORKER))) {
            assertThat(old.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("192.0.2.1:7", "another version", "same version on all hosts"));
            try (Client replacement = new Client(coordinator)) {
                joins.receiveView(1, 2);
                replacement.receiveView(1, 2);
            }
        }
    }

    @Test
    void doesNotWaitForAMemberThatHasLeft() {
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client stays = new Client(coordinator);
                Client leaves = new Client(coordinator)) {
            stays.receiveView(1, 2);
            leaves.receiveView(1, 2);
            stays.send(new Control.Ready(1));
            leaves.send(new Control.Ready(1));
            assertThat(stays.receive()).isEqualTo(new Control.Start(1));
            assertThat(leaves.receive()).isEqualTo(new Control.Start(1));
            try (Client joins = new Client(coordinator)) {
                joins.receiveView(2, 3);
                stays.receiveView(2, 3);
                leaves.receiveView(2, 3);
                leaves.send(new Control.Leave());
                stays.send(new Control.Ready(2));
                joins.send(new Control.Ready(2));
                stays.receiveView(3, 2);
                joins.receiveView(3, 2);
                stays.send(new Control.Ready(3));
                joins.send(new Control.Ready(3));
                assertThat(stays.receive()).isEqualTo(new Control.Start(3));
                assertThat(joins.receive()).isEqualTo(new Control.Start(3));
            }
        }
    }

    private Coordinator open(int world, OnLoss onLoss) {
        Coordinator coordinator = Coordinator.open(config, world, onLoss, 1, SOON);
        processes.add(coordinator::doWork);
        return coordinator;
    }

    private void awaitJoined(Coordinator coordinator, int count) {
        await("joined in time", () -> coordinator.joined() >= count);
    }

    private void awaitSuspected(Coordinator coordinator, long id) {
        await("suspected in time", () -> coordinator.isSuspected(id));
    }

    private void await(String what, BooleanSupplier condition) {
        long begin = System.nanoTime();
        while (!condition.getAsBoolean()) {
            assertThat(System.nanoTime() - begin).as(what).isLessThan(SOON.toNanos());
            processes.forEach(Runnable::run);
        }
    }

    private static void begin(Client... all) {
        for (Client each : all) {
            each.receiveView(1, all.length);
            each.send(new Control.Ready(1));
        }
        for (Client each : all) {
            assertThat(each.receive()).isEqualTo(new Control.Start(1));
        }
    }

    private static Control.Suspect suspect(Client lost) {
        return new Control.Suspect(1, lost.id, 7_000_000, "does not answer");
    }

    @Test
    void endsWithTheHigherOfTwoThatSuspectEachOther() {
        try (Coordinator coordinator = open(3, OnLoss.END); Client first = new Client(coordinator, 0, WORKER);
                Client second = new Client(coordinator, 1, WORKER);
                Client third = new Client(coordinator, 2, WORKER)) {
            begin(first, second, third);
            first.send(suspect(second));
            second.send(suspect(first));
            assertThat(second.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("rank 1 was excluded").contains("does not answer"));
            for (Client each : List.of(first, third)) {
                assertThat(each.receive()).isInstanceOfSatisfying(Control.Lost.class, m -> {
                    assertThat(m.loss().rank()).isOne();
                    assertThat(m.loss().silentNs()).isGreaterThanOrEqualTo(7_000_000);
                });
            }
        }
    }

    @Test
    void endsImmediatelyIfASuspectedMemberLeaves() {
        try (Coordinator coordinator = open(3, OnLoss.END); Client first = new Client(coordinator, 0, WORKER);
                Client second = new Client(coordinator, 1, WORKER);
                Client third = new Client(coordinator, 2, WORKER)) {
            begin(first, second, third);
            second.send(suspect(first));
            awaitSuspected(coordinator, first.id);
            first.send(suspect(second));
            first.send(new Control.Leave());
            for (Client each : List.of(second, third)) {
                assertThat(each.receive()).isInstanceOfSatisfying(Control.Lost.class,
                        m -> assertThat(m.loss().rank()).isZero());
            }
        }
    }

    /** The third rank has lost the second, and ends; the first waits for the third and reports that. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void namesTheLossBecauseOfWhichASuspectedMemberLeft(boolean isReportedAfterwards) {
        try (Coordinator coordinator = open(3, OnLoss.END); Client first = new Client(coordinator, 0, WORKER);
                Client second = new Client(coordinator, 1, WORKER);
                Client third = new Client(coordinator, 2, WORKER)) {
            begin(first, second, third);
            Control.Suspect ofThird = new Control.Suspect(1, third.id, 1_000_000, "it has left");
            third.send(new Control.Suspect(1, second.id, 7_000_000, "does not answer"));
            if (!isReportedAfterwards) {
                first.send(ofThird);
                awaitSuspected(coordinator, third.id);
            }
            third.send(new Control.Leave());
            if (isReportedAfterwards) {
                await("has left in time", () -> coordinator.joined() == 2);
                first.send(ofThird);
            }
            assertThat(first.receive()).isInstanceOfSatisfying(Control.Lost.class, m -> {
                assertThat(m.loss().rank()).isOne();
                assertThat(m.loss().silentNs()).isGreaterThanOrEqualTo(7_000_000);
                assertThat(m.loss().reason()).contains("rank 2 reports: does not answer");
            });
            assertThat(second.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("rank 1 was excluded").contains("rank 2 reports: does not answer"));
        }
    }

    @Test
    void keepsASpareUntilAMemberLeaves() {
        Coordinator coordinator = Coordinator.open(config, CoordinatorConfig.of(2, OnLoss.REFORM).maxMembers(2));
        processes.add(coordinator::doWork);
        try (coordinator; Client first = new Client(coordinator); Client second = new Client(coordinator)) {
            begin(first, second);
            try (Client spare = new Client(coordinator)) {
                spare.receiveMissing("2 members, as many as it may; this process waits as a spare");
                assertThat(coordinator.view().epoch()).isOne();
                second.send(new Control.Leave());
                first.receiveView(2, 2);
                spare.receiveView(2, 2);
            }
        }
    }

    /**
     * As where the member that has lost the coordinator could open no other one. If another member has lost that one
     * as well, its epoch has failed, and a new one follows.
     */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void everyMemberLearnsThatTheQuorumIsBack(boolean failed) {
        Coordinator coordinator = Coordinator.open(config, CoordinatorConfig.of(3, OnLoss.REFORM)
                .quorum(new Quorum.Members(3)));
        processes.add(coordinator::doWork);
        try (coordinator; Client first = new Client(coordinator); Client second = new Client(coordinator);
                Client third = new Client(coordinator)) {
            begin(first, second, third);
            third.send(new Control.Withdraw());
            for (Client each : List.of(first, second)) {
                assertThat(each.receive()).isEqualTo(new Control.NoQuorum(2, 3));
            }
            if (failed) {
                first.send(suspect(third));
            }
            try (Client returned = new Client(coordinator, new Control.Rejoin(third.id, 1, 1, true, List.of(),
                    new Control.Join("returned", "host", -1, WORKER)))) {
                for (Client each : List.of(first, second, returned)) {
                    if (failed) {
                        each.receiveView(2, 3);
                    } else {
                        assertThat(each.receive()).isEqualTo(new Control.Start(1));
                    }
                }
            }
        }
    }

    @Test
    void waitsForEver() throws Exception {
        try (CoordinatorThread thread = CoordinatorThread.start(Coordinator.open(config, 1, OnLoss.REFORM, 1, SOON))) {
            FutureTask<Boolean> wait = new FutureTask<>(() -> thread.awaitDone(ChronoUnit.FOREVER.getDuration()));
            Thread waiter = Thread.ofPlatform().daemon().unstarted(wait);
            try (Membership member = Membership.join(GroupConfig.of(config, thread.address()))) {
                assertThat(member.world()).isOne();
                waiter.start();
                await("waits in time", () -> wait.isDone() || waiter.getState() == Thread.State.TIMED_WAITING);
            }
            assertThat(wait.get(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
        }
    }

    @Test
    void admitsAReplacementBeforeTheLossIsDetected() {
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client first = new Client(coordinator);
                Client dead = new Client(coordinator)) {
            first.receiveView(1, 2);
            dead.receiveView(1, 2);
            try (Client replacement = new Client(coordinator)) {
                first.receiveView(2, 3);
                replacement.receiveView(2, 3);
                dead.close();
                first.receiveView(3, 2);
                replacement.receiveView(3, 2);
            }
        }
    }

    @Test
    void refusesAnotherProcessIfTheGroupDoesNotReform() {
        try (Coordinator coordinator = open(2, OnLoss.END); Client first = new Client(coordinator);
                Client second = new Client(coordinator)) {
            first.receiveView(1, 2);
            second.receiveView(1, 2);
            try (Client third = new Client(coordinator)) {
                assertThat(third.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                        .contains("the group of 2 is complete"));
            }
        }
    }

    @Test
    void announcesRolesAndRefusesASecondServerOfANumber() {
        try (Coordinator coordinator = open(3, OnLoss.END);
                Client server = new Client(coordinator, new Role.Server(4)); Client worker = new Client(coordinator)) {
            awaitJoined(coordinator, 2);
            try (Client second = new Client(coordinator, new Role.Server(4))) {
                assertThat(second.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                        .contains("server 4 has joined already"));
            }
            try (Client other = new Client(coordinator, new Role.Server(5))) {
                for (Client each : List.of(server, worker, other)) {
                    assertThat(each.receive()).isInstanceOfSatisfying(Control.NewView.class, m -> assertThat(
                            m.view().members()).extracting(Member::role).containsExactlyInAnyOrder(new Role.Server(4),
                            new Role.Worker(), new Role.Server(5)));
                }
            }
        }
    }

    @Test
    void admitsAServerInPlaceOfOneThatMayBeLost() {
        try (Coordinator coordinator = open(1, OnLoss.REFORM); Client first = new Client(coordinator,
                new Role.Server(0))) {
            first.receiveView(1, 1);
            try (Client replacement = new Client(coordinator, new Role.Server(0))) {
                first.receiveView(2, 2);
                replacement.receiveView(2, 2);
            }
        }
    }

    @Test
    void doesNotWaitForAProcessThatEndedBeforeItJoined() {
        try (Coordinator coordinator = open(3, OnLoss.REFORM); Client first = new Client(coordinator, 0, WORKER);
                Client third = new Client(coordinator, 2, WORKER)) {
            awaitJoined(coordinator, 2);
            coordinator.exclude(1, "rank 1 was ended by SIGKILL", 0);
            for (Client each : List.of(first, third)) {
                each.receiveMissing("2 of 3 processes have joined; missing: rank 1 (rank 1 was ended by SIGKILL)");
                each.receiveView(1, 2);
            }
            try (Client replacement = new Client(coordinator, 1, WORKER)) {
                replacement.receiveView(2, 3);
            }
        }
    }

    @Test
    void waitsForTheReplacementOfAnEndedProcessIfTheGroupNeedsIt() {
        Coordinator coordinator = Coordinator.open(config, 2, OnLoss.REFORM, 2, SOON);
        processes.add(coordinator::doWork);
        try (coordinator; Client first = new Client(coordinator, 0, WORKER)) {
            awaitJoined(coordinator, 1);
            coordinator.exclude(1, "it had no memory", 0);
            first.receiveMissing("rank 1 (it had no memory)");
            try (Client replacement = new Client(coordinator, 1, WORKER)) {
                first.receiveView(1, 2);
                replacement.receiveView(1, 2);
            }
        }
    }

    @Test
    void doesNotWaitForAMemberThatIsLostBeforeTheFirstEpoch() {
        try (Coordinator coordinator = open(3, OnLoss.REFORM); Client first = new Client(coordinator, 0, WORKER);
                Client second = new Client(coordinator, 1, WORKER); Client dead = new Client(coordinator, 2, WORKER)) {
            first.receiveView(1, 3);
            dead.receiveView(1, 3);
            dead.close();
            first.receiveMissing("rank 2");
            first.receiveView(2, 2);
        }
    }

    @Test
    void waitsForOthersWhenAReplacedMemberIsLost() {
        try (Coordinator coordinator = open(3, OnLoss.REFORM); Client first = new Client(coordinator, 0, WORKER);
                Client dead = new Client(coordinator, 1, WORKER);
                Client replacement = new Client(coordinator, 1, WORKER)) {
            first.receiveView(1, 3);
            dead.close();
            first.receiveMissing("2 of 3 processes have joined; missing: rank 2");
            try (Client third = new Client(coordinator, 2, WORKER)) {
                first.receiveView(2, 3);
                third.receiveView(2, 3);
            }
        }
    }

    @Test
    void aLateReportExcludesTheEndedProcessAndNotItsReplacement() {
        try (Coordinator coordinator = open(2, OnLoss.REFORM); Client first = new Client(coordinator, 0, WORKER);
                Client ended = new Client(coordinator, 1, WORKER)) {
            first.receiveView(1, 2);
            ended.receiveView(1, 2);
            long endedNs = System.nanoTime();
            try (Client replacement = new Client(coordinator, 1, WORKER)) {
                first.receiveView(2, 3);
                replacement.receiveView(2, 3);
                coordinator.exclude(1, "its task failed", System.nanoTime() - endedNs);
                first.receiveView(3, 2);
                replacement.receiveView(3, 2);
                coordinator.exclude(1, "its task failed", System.nanoTime() - endedNs);
                assertThat(coordinator.joined()).isEqualTo(2);
            }
        }
    }

    /** As where a firewall is between members, but not between them and the coordinator. */
    @Test
    void namesTheMembersThatDoNotReachAllOthers() {
        Coordinator coordinator = Coordinator.open(config, 2, OnLoss.END, 1, Duration.ofMillis(1_500));
        processes.add(coordinator::doWork);
        try (coordinator; Client first = new Client(coordinator, 0, WORKER);
                Client second = new Client(coordinator, 1, WORKER)) {
            first.receiveView(1, 2);
            second.receiveView(1, 2);
            first.send(new Control.Ready(1));
            assertThat(first.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("1 of 2 members do not reach all others: rank 1 at client").doesNotContain("missing"));
        }
    }

    @Test
    void namesTheMissingRanksOfAGroupThatDoesNotReform() {
        Coordinator coordinator = Coordinator.open(config, 3, OnLoss.END, 1, Duration.ofMillis(1_500));
        processes.add(coordinator::doWork);
        try (coordinator; Client first = new Client(coordinator, 0, WORKER)) {
            awaitJoined(coordinator, 1);
            coordinator.exclude(2, "it exited with status 1", 0);
            first.receiveMissing("1 of 3 processes have joined; missing: rank 1, rank 2 (it exited with status 1)");
            assertThat(first.receive()).isInstanceOfSatisfying(Control.Refused.class, m -> assertThat(m.reason())
                    .contains("missing: rank 1, rank 2 (it exited with status 1); start the others"));
        }
    }

    /** Members that return to it know each other by the ids that the earlier one has given. */
    @Test
    void givesOtherIdsThanAnEarlierCoordinator() throws InterruptedException {
        long before = Cluster.local(1).run(group -> group.self().id()).getFirst();
        Thread.sleep(3);
        assertThat(Cluster.local(1).run(group -> group.self().id()).getFirst()).isNotEqualTo(before);
    }
}
