// What Flink's NFA makes of patterns and events. Reads a case of `cases.json` on each line, writes its result.
//
// java -cp "$LIB/flink-cep-2.3.0.jar:$LIB/flink-dist-2.3.0.jar" RecordMatches.java < cases > results

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.*;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.aftermatch.SkipToFirstStrategy;
import org.apache.flink.cep.nfa.aftermatch.SkipToLastStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferAccessor;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.WithinType;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.cep.time.TimerService;
import org.apache.flink.cep.configuration.SharedBufferCacheConfig;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;

public class RecordMatches {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = lines.readLine()) != null; ) {
            System.out.println(JSON.writeValueAsString(result(JSON.readTree(line))));
        }
        // The statistics of shared buffers leave threads behind.
        System.exit(0);
    }

    static Map<String, Object> result(JsonNode given) {
        Map<String, Object> result = new LinkedHashMap<>();
        try {
            List<Object> steps = new ArrayList<>();
            run(given, steps);
            result.put("steps", steps);
        } catch (Throwable error) {
            result.put("error", error.getClass().getName() + ": " + error.getMessage());
        }
        return result;
    }

    static void run(JsonNode given, List<Object> steps) throws Exception {
        AfterMatchSkipStrategy skip = skip(given.get("skip"));
        Pattern<Integer, ?> pattern = chain(given.get("pattern"), skip);
        NFA<Integer> nfa = NFACompiler.compileFactory(pattern, true).createNFA();
        NFAState state = nfa.createInitialNFAState();
        SharedBuffer<Integer> buffer =
                new SharedBuffer<>(
                        store(), IntSerializer.INSTANCE, SharedBufferCacheConfig.of(new Configuration()));
        TimerService timers = () -> 0L;
        int event = 0;
        for (JsonNode time : given.get("times")) {
            try (SharedBufferAccessor<Integer> accessor = buffer.getAccessor()) {
                var advanced = nfa.advanceTime(accessor, state, time.asLong(), skip);
                List<Object> matches = new ArrayList<>(advanced.f0);
                List<Object> timedOut = new ArrayList<>();
                advanced.f1.forEach(each -> timedOut.add(List.of(each.f0, each.f1)));
                matches.addAll(nfa.process(accessor, state, event++, time.asLong(), skip, timers));
                steps.add(List.of(matches, timedOut));
            }
        }
        try (SharedBufferAccessor<Integer> accessor = buffer.getAccessor()) {
            var advanced = nfa.advanceTime(accessor, state, 1_000_000, skip);
            List<Object> timedOut = new ArrayList<>();
            advanced.f1.forEach(each -> timedOut.add(List.of(each.f0, each.f1)));
            steps.add(List.of(new ArrayList<>(advanced.f0), timedOut));
        }
        buffer.releaseCacheStatisticsTimer();
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static Pattern<Integer, Integer> chain(JsonNode nodes, AfterMatchSkipStrategy skip) {
        Pattern pattern = null;
        for (JsonNode node : nodes) {
            boolean isGroup = node.has("group");
            Pattern group = isGroup ? chain(node.get("group"), AfterMatchSkipStrategy.noSkip()) : null;
            String name = isGroup ? null : node.get("name").asText();
            String follow = node.get("follow").asText();
            if (pattern == null) {
                pattern = isGroup ? Pattern.begin(group, skip) : Pattern.begin(name, skip);
            } else {
                switch (follow) {
                    case "STRICT": pattern = isGroup ? pattern.next(group) : pattern.next(name); break;
                    case "SKIP_TILL_NEXT":
                        pattern = isGroup ? pattern.followedBy(group) : pattern.followedBy(name);
                        break;
                    case "SKIP_TILL_ANY":
                        pattern = isGroup ? pattern.followedByAny(group) : pattern.followedByAny(name);
                        break;
                    case "NOT_NEXT": pattern = pattern.notNext(name); break;
                    case "NOT_FOLLOW": pattern = pattern.notFollowedBy(name); break;
                    default: throw new IllegalStateException(follow);
                }
            }
            qualify(pattern, node);
        }
        return pattern;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static void qualify(Pattern pattern, JsonNode node) {
        if (node.has("accepts")) pattern.where(accepts(node.get("accepts")));
        if (node.has("rises")) pattern.where(rises(node.get("name").asText()));
        Duration window = node.has("window") ? Duration.ofMillis(node.get("window").asLong()) : null;
        if (node.has("times")) {
            int least = node.get("times").get(0).asInt(), most = node.get("times").get(1).asInt();
            if (most < 0) pattern.timesOrMore(least, window);
            else if (least == most) pattern.times(least, window);
            else pattern.times(least, most, window);
        }
        String inner = node.path("inner").asText();
        if (inner.equals("STRICT")) pattern.consecutive();
        if (inner.equals("SKIP_TILL_ANY")) pattern.allowCombinations();
        if (node.path("greedy").asBoolean()) pattern.greedy();
        if (node.path("optional").asBoolean()) pattern.optional();
        if (node.has("until")) pattern.until(accepts(node.get("until")));
        for (WithinType type : WithinType.values()) {
            JsonNode within = node.path("within").path(type.name());
            if (!within.isMissingNode()) pattern.within(Duration.ofMillis(within.asLong()), type);
        }
    }

    static SimpleCondition<Integer> accepts(JsonNode events) {
        Set<Integer> accepted = new HashSet<>();
        events.forEach(each -> accepted.add(each.asInt()));
        return SimpleCondition.of(accepted::contains);
    }

    /** The number of the event is odd where as many events are matched by the pattern, and even else. */
    static IterativeCondition<Integer> rises(String name) {
        return new IterativeCondition<>() {
            @Override
            public boolean filter(Integer event, Context<Integer> context) throws Exception {
                int matched = 0;
                for (Integer each : context.getEventsForPattern(name)) matched++;
                return matched % 2 == event % 2;
            }
        };
    }

    static AfterMatchSkipStrategy skip(JsonNode node) {
        String name = node.path("pattern").asText();
        boolean fails = node.path("throws").asBoolean();
        switch (node.get("kind").asText()) {
            case "NO_SKIP": return AfterMatchSkipStrategy.noSkip();
            case "SKIP_TO_NEXT": return AfterMatchSkipStrategy.skipToNext();
            case "SKIP_PAST_LAST_EVENT": return AfterMatchSkipStrategy.skipPastLastEvent();
            case "SKIP_TO_FIRST":
                SkipToFirstStrategy first = AfterMatchSkipStrategy.skipToFirst(name);
                return fails ? first.throwExceptionOnMiss() : first;
            case "SKIP_TO_LAST":
                SkipToLastStrategy last = AfterMatchSkipStrategy.skipToLast(name);
                return fails ? last.throwExceptionOnMiss() : last;
            default: throw new IllegalStateException(node.toString());
        }
    }

    static KeyedStateStore store() {
        return (KeyedStateStore)
                Proxy.newProxyInstance(
                        RecordMatches.class.getClassLoader(),
                        new Class<?>[] {KeyedStateStore.class},
                        (proxy, method, arguments) -> {
                            if (method.getName().equals("getMapState")) return state(MapState.class);
                            if (method.getName().equals("getState")) return state(ValueState.class);
                            throw new UnsupportedOperationException(method.toString());
                        });
    }

    static Object state(Class<?> kind) {
        Map<Object, Object> map = new HashMap<>();
        return Proxy.newProxyInstance(
                RecordMatches.class.getClassLoader(),
                new Class<?>[] {kind},
                (proxy, method, arguments) -> {
                    switch (method.getName()) {
                        case "value": return map.get("");
                        case "update": map.put("", arguments[0]); return null;
                        case "clear": map.clear(); return null;
                        case "get": return map.get(arguments[0]);
                        case "put": map.put(arguments[0], arguments[1]); return null;
                        case "putAll": map.putAll((Map<?, ?>) arguments[0]); return null;
                        case "remove": map.remove(arguments[0]); return null;
                        case "contains": return map.containsKey(arguments[0]);
                        case "entries": return map.entrySet();
                        case "keys": return map.keySet();
                        case "values": return map.values();
                        case "iterator": return map.entrySet().iterator();
                        case "isEmpty": return map.isEmpty();
                        default: throw new UnsupportedOperationException(method.toString());
                    }
                });
    }
}
