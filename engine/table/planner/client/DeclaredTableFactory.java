package onceproof;

import java.util.HashSet;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DataStreamSinkProvider;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.types.RowKind;

/** Tables that exist for the planner only: a schema and the changes that they send or accept. */
public final class DeclaredTableFactory implements DynamicTableSourceFactory, DynamicTableSinkFactory {
    private static final ConfigOption<String> MODE =
            ConfigOptions.key("mode").stringType().defaultValue("append");
    private static final ConfigOption<String> SINK_MODE =
            ConfigOptions.key("sink-mode").stringType().defaultValue("any");
    /** Whether the source makes watermarks for each of its splits, as that of Kafka does. */
    private static final ConfigOption<Boolean> PUSHED_WATERMARKS =
            ConfigOptions.key("pushed-watermarks").booleanType().defaultValue(false);

    @Override
    public String factoryIdentifier() {
        return "vec";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return new HashSet<>();
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of(MODE, SINK_MODE, PUSHED_WATERMARKS);
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        String mode = helper.getOptions().get(MODE);
        DataType type = context.getPhysicalRowDataType();
        boolean pushed = helper.getOptions().get(PUSHED_WATERMARKS);
        return pushed ? new SplitSource(mode, type) : new Source(mode, type);
    }

    @Override
    public DynamicTableSink createDynamicTableSink(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Sink(helper.getOptions().get(SINK_MODE));
    }

    private static ChangelogMode modeOf(String name) {
        switch (name) {
            case "append":
                return ChangelogMode.insertOnly();
            case "upsert":
                return ChangelogMode.newBuilder()
                        .addContainedKind(RowKind.INSERT)
                        .addContainedKind(RowKind.UPDATE_AFTER)
                        .addContainedKind(RowKind.DELETE)
                        .build();
            default:
                return ChangelogMode.all();
        }
    }

    private static class Source implements ScanTableSource {
        final String mode;
        final DataType type;

        Source(String mode, DataType type) {
            this.mode = mode;
            this.type = type;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return modeOf(mode);
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(
                        ProviderContext provider, StreamExecutionEnvironment environment) {
                    return environment
                            .fromData(0L)
                            .filter(number -> false)
                            .map(number -> (RowData) null)
                            .returns(InternalTypeInfo.of(type.getLogicalType()));
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            return new Source(mode, type);
        }

        @Override
        public String asSummaryString() {
            return "vec";
        }
    }

    private static final class SplitSource extends Source implements SupportsWatermarkPushDown {
        SplitSource(String mode, DataType type) {
            super(mode, type);
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> strategy) {}

        @Override
        public DynamicTableSource copy() {
            return new SplitSource(mode, type);
        }
    }

    private static final class Sink implements DynamicTableSink {
        private final String mode;

        Sink(String mode) {
            this.mode = mode;
        }

        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return mode.equals("any") ? requested : modeOf(mode);
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return new DataStreamSinkProvider() {
                @Override
                public DataStreamSink<?> consumeDataStream(
                        ProviderContext provider, DataStream<RowData> rows) {
                    return rows.sinkTo(new DiscardingSink<>());
                }
            };
        }

        @Override
        public DynamicTableSink copy() {
            return new Sink(mode);
        }

        @Override
        public String asSummaryString() {
            return "vec";
        }
    }
}
