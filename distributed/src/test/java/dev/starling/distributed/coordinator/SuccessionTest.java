package dev.starling.distributed.coordinator;

import static dev.starling.distributed.coordinator.SimulatedGroup.COORDINATOR;
import static dev.starling.distributed.coordinator.SimulatedGroup.SILENCE;
import static dev.starling.distributed.coordinator.SimulatedGroup.cut;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.QuorumLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.View;
import dev.starling.distributed.coordinator.SimulatedGroup.Life;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Inbox;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Outbox;
import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.BiConsumer;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** A member takes the place of a lost coordinator. */
class SuccessionTest {
    private static final Duration AT = Duration.ofMillis(200);
    private static final Duration LONG = Duration.ofSeconds(10);
    private static final Conditions UNEVEN = new Conditions(Duration.ofNanos(20_000), Duration.ofMillis(5), 0,
            Duration.ofMillis(1), 2_000_000_000L, 1 << 20, 0, 0, 0);

    private static Map<String, Life> run(int world, Fault... faults) {
        return SimulatedGroup.run(CoordinatorConfig.of(world, Coordinator.OnLoss.REFORM), faults);
    }

    private static void assertLastEpoch(Map<String, Life> lives, int epochs, String... members) {
        for (String name : members) {
            Life life = lives.get(name);
            assertThat(life.failure).as(name).isNull();
            assertThat(life.epochs).as(name).hasSize(epochs);
            assertThat(life.lastMembers()).as(name).containsExactly(members);
        }
    }

    @Test
    void noEpochEndsWithTheCoordinator() {
        assertLastEpoch(run(3, new Fault.Crash(AT, 0, COORDINATOR)), 1, "rank0", "rank1", "rank2");
    }

    @Test
    void theGroupSurvivesLossesAfterThatOfTheCoordinator() {
        Map<String, Life> lives = run(4, new Fault.Crash(AT, 0, COORDINATOR), new Fault.Crash(AT.multipliedBy(4), 0,
                "rank1"), new Fault.Crash(AT.multipliedBy(7), 0, "rank0"));
        assertLastEpoch(Map.of("rank2", lives.get("rank2"), "rank3", lives.get("rank3")), 3, "rank2", "rank3");
    }

    /** As where the coordinator runs in the process of rank 0. */
    @Test
    void theGroupSurvivesTheLossOfCoordinatorAndRankZeroWithinTwoLivenessTimeouts() {
        Map<String, Life> lives = run(3, new Fault.Crash(AT, 0, COORDINATOR), new Fault.Crash(AT, 0, "rank0"));
        assertLastEpoch(lives, 2, "rank1", "rank2");
        for (String name : List.of("rank1", "rank2")) {
            assertThat(lives.get(name).begins.get(lives.get(name).lastEpoch()).minus(AT))
                    .isBetween(Duration.ZERO, SILENCE.multipliedBy(2));
        }
    }

    /**
     * Rank 0 opens another coordinator, then is killed. Some of its announcements arrive after the members have found
     * that coordinator.
     */
    @Test
    void theGroupSurvivesTheLossOfTheMemberThatOpensACoordinator() {
        Duration again = AT.plus(SILENCE.dividedBy(2));
        for (long micros = 0; micros < 20_000; micros += 500) {
            Duration late = AT.plus(Duration.of(micros, ChronoUnit.MICROS));
            Fault[] faults = Stream.of(killed(AT, COORDINATOR, "rank0", "rank1"), Stream.of(new Fault.Break(late,
                    COORDINATOR, "rank2")), killed(again, "rank0", "rank1", "rank2")).flatMap(each -> each)
                    .toArray(Fault[]::new);
            assertTheOthersContinue(SimulatedGroup.over(UNEVEN, CoordinatorConfig.of(3, Coordinator.OnLoss.REFORM),
                    faults).run(), again, SILENCE.dividedBy(2), "rank2 notices at " + late);
        }
    }

    /** Rank 1 learns that rank 0 is lost at about the time at which rank 2 has waited long enough for both. */
    @Test
    void theGroupSurvivesThatTwoMembersOpenACoordinatorAtATime() {
        for (int i = 0; i < 100; i++) {
            Duration stops = AT.plus(Duration.of(i / 10 * 2_500, ChronoUnit.MICROS));
            Duration lost = stops.plus(Duration.of(i % 10 * 700, ChronoUnit.MICROS));
            Fault[] faults = Stream.concat(Stream.of(new Fault.Pause(stops, LONG, "rank0")),
                    killed(lost, COORDINATOR, "rank0", "rank1", "rank2")).toArray(Fault[]::new);
            assertTheOthersContinue(SimulatedGroup.over(UNEVEN, CoordinatorConfig.of(3, Coordinator.OnLoss.REFORM),
                    faults).run(), lost, SILENCE.multipliedBy(2), "rank0 stops at " + stops + ", the coordinator at "
                    + lost);
        }
    }

    private static void assertTheOthersContinue(Map<String, Life> lives, Duration from, Duration within, String when) {
        for (String name : List.of("rank1", "rank2")) {
            Life life = lives.get(name);
            assertThat(life.failure).as("%s, %s", name, when).isNull();
            assertThat(life.lastMembers()).as("%s, %s", name, when).containsExactly("rank1", "rank2");
            assertThat(life.begins.get(life.lastEpoch()).minus(from)).as("%s, %s", name, when)
                    .isLessThanOrEqualTo(within);
        }
    }

    /** Returns the faults of a killed process, whose connections the system closes. */
    private static Stream<Fault> killed(Duration at, String process, String... others) {
        return Stream.concat(Stream.of(new Fault.Crash(at, 0, process)),
                Stream.of(others).map(other -> new Fault.Break(at, process, other)));
    }

    @Test
    void theMajorityContinuesWithoutTheSideOfTheCoordinator() {
        Map<String, Life> lives = run(3, cut(AT, LONG, 3, COORDINATOR, "rank0"));
        assertLastEpoch(lives, 2, "rank1", "rank2");
        assertThat(lives.get("rank1").begins.get(lives.get("rank1").lastEpoch()).minus(AT))
                .isLessThanOrEqualTo(SILENCE.multipliedBy(2));
        assertThat(lives.get("rank0").failure).isInstanceOf(QuorumLostException.class);
    }

    @Test
    void nothingChangesForMembersIfOnlyTheCoordinatorIsCutOff() {
        assertLastEpoch(run(3, cut(AT, LONG, 3, COORDINATOR)), 1, "rank0", "rank1", "rank2");
        assertLastEpoch(run(3, cut(AT, SILENCE.multipliedBy(3), 3, COORDINATOR)), 1, "rank0", "rank1", "rank2");
        assertLastEpoch(run(3, new Fault.Pause(AT, SILENCE.multipliedBy(3), COORDINATOR)), 1, "rank0", "rank1",
                "rank2");
    }

    @Test
    void aCoordinatorThatIsStartedAgainSendsProcessesToTheGroup() {
        Duration late = AT.multipliedBy(5);
        Map<String, Life> lives = SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM),
                new Fault.Crash(AT, 0, COORDINATOR)).coordinatorAt(AT.multipliedBy(3))
                .processAt(late, "newcomer", COORDINATOR).run();
        assertJoined(lives, late);
    }

    private static void assertJoined(Map<String, Life> lives, Duration at) {
        assertJoined(lives, at, SILENCE);
    }

    private static void assertJoined(Map<String, Life> lives, Duration at, Duration within) {
        Life newcomer = lives.get("newcomer");
        assertThat(newcomer.failure).isNull();
        assertThat(newcomer.lastMembers()).containsExactly("rank0", "rank1", "newcomer");
        assertThat(newcomer.begins.get(newcomer.lastEpoch()).minus(at)).isLessThan(within);
    }

    @Test
    void aMemberSendsProcessesToTheCoordinator() {
        Duration late = AT.multipliedBy(5);
        assertJoined(SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM)).processAt(late, "newcomer",
                "rank1").run(), late);
        assertJoined(SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM), new Fault.Crash(AT, 0,
                COORDINATOR)).processAt(late, "newcomer", "rank1").run(), late);
    }

    @Test
    void aProcessTriesAddressesInTurn() {
        Duration late = AT.multipliedBy(5);
        assertJoined(SimulatedGroup.of(CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM), new Fault.Crash(AT, 0,
                COORDINATOR)).processAt(late, "newcomer", COORDINATOR + ",rank0").run(), late);
    }

    /** The handshake takes 40 ms, and the process tries the next address after 12.5. */
    @Test
    void aProcessThatTriesManyAddressesWaitsForSlowAnswers() {
        Duration late = AT.multipliedBy(5);
        Conditions slow = new Conditions(Duration.ofMillis(10), Duration.ofMillis(1), 0, Duration.ofMillis(30),
                2_000_000_000L, 1 << 20, 0, 0, 0);
        Map<String, Life> lives = SimulatedGroup.over(slow, CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM),
                new Fault.Crash(AT, 0, COORDINATOR)).newcomerAt(late, "newcomer", COORDINATOR + ",rank1,rank0").run();
        assertJoined(lives, late, SILENCE.multipliedBy(2));
    }

    @Test
    void noSideOfThreeContinues() {
        Map<String, Life> lives = run(3, cut(AT, LONG, 3, COORDINATOR, "rank0"), cut(AT, LONG, 3, "rank1"),
                cut(AT, LONG, 3, "rank2"));
        lives.forEach((name, life) -> assertThat(life.failure).as(name).isInstanceOf(QuorumLostException.class));
    }

    @Test
    void aMemberReturnsThatWasStopped() {
        Map<String, Life> lives = run(3, new Fault.Pause(AT, SILENCE.multipliedBy(4), "rank1"));
        lives.forEach((name, life) -> {
            assertThat(life.failure).as(name).isNull();
            assertThat(life.lastMembers()).as(name).containsExactly("rank0", "rank2", "rank1");
        });
    }

    @Test
    void nothingChangesIfAllProcessesAreStoppedTogether() {
        Fault[] stops = Stream.of(COORDINATOR, "rank0", "rank1", "rank2")
                .map(name -> new Fault.Pause(AT, SILENCE.multipliedBy(4), name)).toArray(Fault[]::new);
        assertLastEpoch(run(3, stops), 1, "rank0", "rank1", "rank2");
    }

    /** The others have another coordinator when it returns. */
    @Test
    void aMemberReturnsThatWasStoppedWithTheCoordinator() {
        Map<String, Life> lives = run(3, new Fault.Pause(AT, SILENCE.multipliedBy(4), "rank0"), new Fault.Pause(AT,
                SILENCE.multipliedBy(4), COORDINATOR));
        lives.forEach((name, life) -> {
            assertThat(life.failure).as(name).isNull();
            assertThat(life.lastMembers()).as(name).containsExactly("rank1", "rank2", "rank0");
        });
    }

    @Test
    void aMemberReturnsThatHasLostTheCoordinatorOnly() {
        Map<String, Life> lives = run(3, new Fault.Break(AT, COORDINATOR, "rank1"));
        lives.forEach((name, life) -> {
            assertThat(life.failure).as(name).isNull();
            assertThat(life.lastMembers()).as(name).containsExactlyInAnyOrder("rank0", "rank1", "rank2");
        });
    }

    /**
     * Rank 1 follows the coordinator that rank 0 announces, learns that this one has no quorum, and then finds the
     * former one. A goodbye without notice would count as the end of rank 1, so that fewer members would be a quorum.
     */
    @Test
    void aMemberWithdrawsBeforeItReturnsToTheFormerCoordinator() {
        // Longer than a process idles, and short for a liveness timeout.
        Duration pause = Duration.ofMillis(20);
        Role worker = new Role.Worker();
        Control.NewView view = new Control.NewView(2, new View(1, List.of(new Member(1, 0, 0, "rank0", "rank0", worker),
                new Member(2, 1, 1, "rank1", "rank1", worker))), new Control.Rules(2, true, 1, 2, new Quorum.Majority(),
                LONG.toNanos()), 0);
        Endpoint[] started = new Endpoint[1];
        boolean[] announced = new boolean[1];
        boolean[] returned = new boolean[1];
        boolean[] left = new boolean[1];
        BooleanSupplier over = () -> returned[0] && left[0];
        List<Control> received = new ArrayList<>();
        try (Simulation simulation = Simulation.of(1)) {
            simulation.start(COORDINATOR, () -> {
                try (Transport transport = scripted(simulation, COORDINATOR, (from, message) -> {
                    switch (message) {
                        case Control.Join _ -> from.send(view);
                        case Control.Ready _ -> {
                            from.send(new Control.Start(1));
                            started[0] = from.endpoint();
                        }
                        case Control.Rejoin _ -> returned[0] = true;
                        default -> { }
                    }
                })) {
                    transport.await(() -> announced[0], LONG, "the announcement");
                    simulation.sleep(pause);
                    started[0].close();
                    transport.await(over, LONG, "the return of rank 1");
                }
            });
            simulation.start("rank0", () -> {
                try (Transport transport = scripted(simulation, "rank0", (_, _) -> { })) {
                    Endpoint[] member = new Endpoint[1];
                    transport.onConnection(new ConnectionHandler() {
                        @Override
                        public void onAccepted(Endpoint endpoint) {
                            member[0] = endpoint;
                        }
                    });
                    transport.await(() -> started[0] != null, LONG, "the epoch");
                    simulation.sleep(pause);
                    new Outbox(member[0]).send(new Control.Successor("other", 0, 1, 1, 0));
                    announced[0] = true;
                    transport.await(over, LONG, "the return of rank 1");
                }
            });
            simulation.start("other", () -> {
                try (Transport transport = scripted(simulation, "other", (from, message) -> {
                    received.add(message);
                    if (message instanceof Control.Rejoin) {
                        from.send(new Control.NoQuorum(1, 2));
                    }
                })) {
                    transport.onConnection(new ConnectionHandler() {
                        @Override
                        public void onLost(Endpoint endpoint) {
                            left[0] = true;
                        }
                    });
                    transport.await(over, LONG, "the return of rank 1");
                }
            });
            simulation.start("rank1", () -> {
                GroupConfig config = GroupConfig.of(null, COORDINATOR).preferredRank(1).host("rank1");
                try (Membership group = Membership.join(Transport.over(simulation.wire("rank1"),
                        SimulatedGroup.transport()), config, false, _ -> { })) {
                    group.await(over, LONG);
                }
            });
            simulation.run(LONG.multipliedBy(2));
        }
        assertThat(received).hasExactlyElementsOfTypes(Control.Rejoin.class, Control.Withdraw.class);
    }

    /** It would end with an exception after a liveness timeout without a quorum. */
    @Test
    void aSpareWaitsLongerIfTheQuorumIsBack() {
        Control.NewView view = new Control.NewView(2, new View(3, List.of(new Member(2, 0, -1, "spare", "spare",
                new Role.Worker()))), new Control.Rules(2, true, 1, 2, new Quorum.Majority(), LONG.toNanos()), 2);
        Outbox[] spare = new Outbox[1];
        boolean[] admitted = new boolean[1];
        try (Simulation simulation = Simulation.of(1)) {
            simulation.start(COORDINATOR, () -> {
                try (Transport transport = scripted(simulation, COORDINATOR, (from, message) -> {
                    switch (message) {
                        case Control.Join _ -> {
                            from.send(new Control.NoQuorum(1, 2));
                            from.send(new Control.Waiting("it has as many members as it may"));
                            spare[0] = from;
                        }
                        case Control.Ready _ -> from.send(new Control.Start(3));
                        default -> { }
                    }
                })) {
                    transport.await(() -> spare[0] != null, LONG, "the spare");
                    Duration later = simulation.now().plus(SILENCE.multipliedBy(2));
                    transport.await(() -> simulation.now().compareTo(later) > 0, LONG, "two liveness timeouts");
                    spare[0].send(view);
                    transport.await(() -> admitted[0], LONG, "the spare as a member");
                }
            });
            simulation.start("spare", () -> {
                GroupConfig config = GroupConfig.of(null, COORDINATOR).host("spare");
                try (Membership group = Membership.join(Transport.over(simulation.wire("spare"),
                        SimulatedGroup.transport()), config, false, _ -> { })) {
                    admitted[0] = group.epoch() == 3;
                }
            });
            simulation.run(LONG.multipliedBy(2));
        }
        assertThat(admitted[0]).isTrue();
    }

    /** Returns the transport of a process that answers control messages as a test says. */
    private static Transport scripted(Simulation simulation, String name, BiConsumer<Outbox, Control> answer) {
        Transport transport = Transport.over(simulation.wire(name), SimulatedGroup.transport());
        Inbox inbox = new Inbox();
        transport.onMessage((from, buffer, offset, length) -> {
            Control message = inbox.read(from, buffer, offset, length);
            if (message != null) {
                answer.accept(new Outbox(from), message);
            }
        });
        return transport;
    }
}
