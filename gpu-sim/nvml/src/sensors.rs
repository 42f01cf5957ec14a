//! Temperatures, power and fans: plausible values of a card that is never hot. They follow
//! utilisation.

use std::ffi::{c_int, c_longlong, c_uint, c_ulonglong};

use cuda_headers::nvml::{
    nvmlDevice_t, nvmlEnableState_t, nvmlFieldValue_t, nvmlReturn_t, nvmlTemperature_t,
    nvmlTemperatureSensors_t, nvmlTemperatureThresholds_t, nvmlValue_t, nvmlValueType_t,
};
use gpu_sim_core::now_ns;

use crate::device;
use crate::entry::{INVALID, NOT_SUPPORTED, Outcome, entry, out};
use crate::memory::version;
use crate::utilization;

const IDLE_MW: c_uint = 75_000;
const LIMIT_MW: c_uint = 700_000;
const IDLE_C: c_uint = 30;
const SHUTDOWN_C: c_uint = 95;
const SLOWDOWN_C: c_uint = 90;
const MAX_C: c_uint = 85;

/// Field numbers, as the header has them.
const FIELD_MEMORY_TEMPERATURE: c_uint = 82;
const FIELD_ENERGY: c_uint = 83;
const FIELD_POWER_AVERAGE: c_uint = 185;
const FIELD_POWER_INSTANT: c_uint = 186;

pub(crate) unsafe fn constant<T>(handle: nvmlDevice_t, target: *mut T, value: T) -> Outcome {
    device::get(handle)?.whole()?;
    // SAFETY: the application's pointer.
    unsafe { out(target, value) }
}

/// Between idle and limit, by how busy the device is.
fn power(handle: nvmlDevice_t) -> Result<c_uint, nvmlReturn_t> {
    let device = device::get(handle)?.whole()?;
    Ok(IDLE_MW + (LIMIT_MW - IDLE_MW) / 100 * utilization::rate(&device))
}

fn temperature(handle: nvmlDevice_t) -> Result<c_uint, nvmlReturn_t> {
    let device = device::get(handle)?.whole()?;
    Ok(IDLE_C + utilization::rate(&device) / 3)
}

fn field(handle: nvmlDevice_t, id: c_uint) -> Result<(nvmlValueType_t, nvmlValue_t), nvmlReturn_t> {
    let uint = |value| {
        (
            nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_INT,
            nvmlValue_t { uiVal: value },
        )
    };
    Ok(match id {
        FIELD_MEMORY_TEMPERATURE => uint(temperature(handle)?),
        FIELD_POWER_AVERAGE | FIELD_POWER_INSTANT => uint(power(handle)?),
        FIELD_ENERGY => (
            nvmlValueType_t::NVML_VALUE_TYPE_UNSIGNED_LONG_LONG,
            nvmlValue_t { ullVal: energy() },
        ),
        _ => return Err(NOT_SUPPORTED),
    })
}

/// Millijoules since the machine started, as if always idle.
fn energy() -> c_ulonglong {
    now_ns() / 1_000_000 * u64::from(IDLE_MW) / 1000
}

entry! {
    fn nvmlDeviceGetTemperature(
        device: nvmlDevice_t,
        sensorType: nvmlTemperatureSensors_t,
        temp: *mut c_uint,
    ) {
        if sensorType != nvmlTemperatureSensors_t::NVML_TEMPERATURE_GPU {
            return Err(INVALID);
        }
        out(temp, temperature(device)?)
    }

    fn nvmlDeviceGetTemperatureV(device: nvmlDevice_t, temperature_out: *mut nvmlTemperature_t) {
        let asked = temperature_out.as_ref().ok_or(INVALID)?;
        if asked.version != version::<nvmlTemperature_t>(1) {
            return Err(nvmlReturn_t::NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
        }
        if asked.sensorType != nvmlTemperatureSensors_t::NVML_TEMPERATURE_GPU {
            return Err(INVALID);
        }
        let value = c_int::try_from(temperature(device)?).unwrap_or(0);
        (&raw mut (*temperature_out).temperature).write(value);
        Ok(())
    }

    fn nvmlDeviceGetTemperatureThreshold(
        device: nvmlDevice_t,
        thresholdType: nvmlTemperatureThresholds_t,
        temp: *mut c_uint,
    ) {
        let celsius = match thresholdType {
            nvmlTemperatureThresholds_t::NVML_TEMPERATURE_THRESHOLD_SHUTDOWN => SHUTDOWN_C,
            nvmlTemperatureThresholds_t::NVML_TEMPERATURE_THRESHOLD_SLOWDOWN => SLOWDOWN_C,
            nvmlTemperatureThresholds_t::NVML_TEMPERATURE_THRESHOLD_GPU_MAX
            | nvmlTemperatureThresholds_t::NVML_TEMPERATURE_THRESHOLD_MEM_MAX => MAX_C,
            _ => return Err(NOT_SUPPORTED),
        };
        constant(device, temp, celsius)
    }

    fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, power_out: *mut c_uint) {
        out(power_out, power(device)?)
    }

    fn nvmlDeviceGetPowerManagementLimit(device: nvmlDevice_t, limit: *mut c_uint) {
        constant(device, limit, LIMIT_MW)
    }

    fn nvmlDeviceGetPowerManagementDefaultLimit(device: nvmlDevice_t, limit: *mut c_uint) {
        constant(device, limit, LIMIT_MW)
    }

    fn nvmlDeviceGetEnforcedPowerLimit(device: nvmlDevice_t, limit: *mut c_uint) {
        constant(device, limit, LIMIT_MW)
    }

    fn nvmlDeviceGetPowerManagementLimitConstraints(
        device: nvmlDevice_t,
        minLimit: *mut c_uint,
        maxLimit: *mut c_uint,
    ) {
        constant(device, minLimit, 200_000)?;
        out(maxLimit, LIMIT_MW)
    }

    fn nvmlDeviceGetPowerManagementMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) {
        constant(device, mode, nvmlEnableState_t::NVML_FEATURE_ENABLED)
    }

    fn nvmlDeviceGetTotalEnergyConsumption(device: nvmlDevice_t, energy_out: *mut c_ulonglong) {
        constant(device, energy_out, energy())
    }

    /// Cooled by the machine's own fans.
    fn nvmlDeviceGetFanSpeed(device: nvmlDevice_t, speed: *mut c_uint) {
        let _ = speed;
        device::get(device)?.whole()?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetFanSpeed_v2(device: nvmlDevice_t, fan: c_uint, speed: *mut c_uint) {
        let _ = (fan, speed);
        device::get(device)?.whole()?;
        Err(NOT_SUPPORTED)
    }

    fn nvmlDeviceGetNumFans(device: nvmlDevice_t, numFans: *mut c_uint) {
        constant(device, numFans, 0)
    }

    /// Each field answers for itself.
    fn nvmlDeviceGetFieldValues(
        device: nvmlDevice_t,
        valuesCount: c_int,
        values: *mut nvmlFieldValue_t,
    ) {
        device::get(device)?;
        let count = usize::try_from(valuesCount).ok().filter(|count| *count > 0);
        if values.is_null() || count.is_none() {
            return Err(INVALID);
        }
        for index in 0..count.unwrap_or(0) {
            let one = values.add(index);
            let answer = field(device, (*one).fieldId);
            (*one).timestamp = c_longlong::try_from(now_ns() / 1000).unwrap_or(0);
            (*one).latencyUsec = 0;
            match answer {
                Ok((kind, value)) => {
                    (*one).valueType = kind;
                    (*one).value = value;
                    (*one).nvmlReturn = nvmlReturn_t::NVML_SUCCESS;
                }
                Err(code) => (*one).nvmlReturn = code,
            }
        }
        Ok(())
    }
}
