package dev.starling.transport.simulated;

import dev.starling.transport.ConnectionHandler;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Processes that tell each other numbers, each the next one only when all have told theirs. Ends for all of them,
 * complete or because one is lost.
 */
final class Circle {
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.ofText("a secret of tests"))
            .silence(Duration.ofSeconds(1));
    private static final Duration LONG = Duration.ofSeconds(20);

    final Simulation simulation;
    final List<Member> members = new ArrayList<>();

    private final List<String> names;

    private Circle(Simulation simulation, List<String> names) {
        this.simulation = simulation;
        this.names = names;
    }

    static Circle run(Simulation simulation, List<String> names, int rounds, Duration deadline) {
        Circle circle = new Circle(simulation, names);
        for (String name : names) {
            Member member = circle.new Member(name);
            circle.members.add(member);
            simulation.start(name, () -> member.exchange(rounds));
        }
        simulation.run(deadline);
        return circle;
    }

    /** One process. */
    final class Member {
        final String name;
        int rounds;
        boolean lost;

        private final List<Endpoint> peers = new ArrayList<>();
        private final int[] heard = new int[names.size()];

        Member(String name) {
            this.name = name;
        }

        void exchange(int most) {
            try (Transport transport = Transport.over(simulation.wire(name), CONFIG)) {
                transport.onMessage((from, buffer, offset, length) -> hear(buffer.getInt(offset),
                        buffer.getInt(offset + 4)));
                transport.onConnection(new ConnectionHandler() {
                    @Override
                    public void lost(Endpoint endpoint) {
                        lost = true;
                    }
                });
                names.stream().filter(n -> !n.equals(name)).forEach(n -> peers.add(transport.connect(n, new byte[0])));
                if (connect(transport)) {
                    tell(transport, most);
                }
                long end = transport.nanoTime() + Duration.ofMillis(200).toNanos();
                while (!lost && transport.nanoTime() < end) {
                    transport.doWork();
                    transport.idle(0);
                }
            }
        }

        private boolean connect(Transport transport) {
            try {
                transport.await(() -> lost || peers.stream().noneMatch(p -> p.state() == Endpoint.State.CONNECTING),
                        LONG, "the others");
            } catch (TransportException e) {
                lost = true;
            }
            lost |= !peers.stream().allMatch(Endpoint::isConnected);
            return !lost;
        }

        private void tell(Transport transport, int most) {
            UnsafeBuffer message = new UnsafeBuffer(new byte[8]);
            int me = names.indexOf(name);
            while (rounds < most) {
                int number = rounds + 1;
                simulation.sleep(Duration.ofNanos(simulation.random().nextLong(20_000_000)));
                heard[me] = number;
                message.putInt(0, me);
                message.putInt(4, number);
                for (Endpoint peer : peers) {
                    transport.await(() -> peer.send(message, 0, 8) != Endpoint.BACK_PRESSURED, LONG, "room");
                }
                transport.await(() -> lost || hasHeard(number), LONG, "number " + number);
                if (!hasHeard(number)) {
                    return;
                }
                rounds = number;
            }
        }

        private boolean hasHeard(int number) {
            for (int h : heard) {
                if (h < number) {
                    return false;
                }
            }
            return true;
        }

        private void hear(int who, int number) {
            if (number != heard[who] + 1) {
                throw new AssertionError(name + " got " + number + " of " + names.get(who) + " after " + heard[who]);
            }
            heard[who] = number;
        }
    }
}
